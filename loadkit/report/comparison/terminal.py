"""The comparison for the terminal: the answer, a table per lane, what a reader must know."""

from pathlib import Path

from rich.text import Text

from loadkit.analysis.comparison import Comparison
from loadkit.report.comparison import tables, words
from loadkit.report.terminal_table import lines

_TONES = {"valid": "bold green", "open": "bold yellow", "invalid": "bold red"}


def terminal_comparison(comparison: Comparison, folder: Path | None = None) -> Text:
    """`folder`: where the report was written; None = nowhere."""
    head = words.headline(comparison)
    slos, whole = tables.slos(comparison), tables.whole(comparison)
    settings, shared = tables.settings(comparison), tables.shared_settings(comparison)
    lanes = [tables.lane(comparison, lane, narrow=True) for lane in comparison.lanes]
    paragraphs = words.conclusion(comparison)
    if len(comparison.arms) > 2:  # what changed in each of them is in the tables
        paragraphs = words.decision(comparison)
    return Text("\n").join(
        [
            Text.assemble((head.word, _TONES[head.tone]), f" {head.sentence}".rstrip()),
            *(Text(paragraph) for paragraph in paragraphs),
            *(Text(f"  ~ {text}") for text in comparison.cautions),
            *(line for table in (settings, slos, *lanes, whole) if table for line in lines(table)),
            *([Text(f"\nthe same in all   {shared}")] if shared else []),
            *([Text(f"\nreport   {folder / 'index.html'}")] if folder else []),
        ]
    )
