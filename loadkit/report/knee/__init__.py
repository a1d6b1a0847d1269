"""A search → terminal, Markdown, HTML, charts. Computes nothing: it prints what `analysis.knee` found."""

from loadkit.report.knee.terminal import terminal_knee
from loadkit.report.knee.words import headline
from loadkit.report.knee.write import write_knee

__all__ = ["headline", "terminal_knee", "write_knee"]
