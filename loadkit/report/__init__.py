"""A run's summary → terminal, Markdown, HTML, charts. Computes nothing: it prints what `analysis` found."""

from loadkit.report.terminal import terminal_summary
from loadkit.report.write import ReportPaths, write_report

__all__ = ["ReportPaths", "terminal_summary", "write_report"]
