"""The verdict on a release → terminal, Markdown, HTML, JSON, JUnit. Computes nothing."""

from loadkit.report.gate.terminal import terminal_gate
from loadkit.report.gate.write import write_gate

__all__ = ["terminal_gate", "write_gate"]
