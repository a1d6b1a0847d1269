"""A comparison → terminal, Markdown, HTML, charts. Computes nothing: it prints what `analysis` found."""

from loadkit.report.comparison.charts import charts
from loadkit.report.comparison.markdown import comparison_markdown
from loadkit.report.comparison.page import comparison_page
from loadkit.report.comparison.terminal import terminal_comparison
from loadkit.report.comparison.words import conclusion
from loadkit.report.comparison.write import as_json, write_comparison

__all__ = [
    "as_json",
    "charts",
    "comparison_markdown",
    "comparison_page",
    "conclusion",
    "terminal_comparison",
    "write_comparison",
]
