"""The comparison for the terminal: the answer, a table per lane, what a reader must know."""

from pathlib import Path

from rich.text import Text

from loadkit.analysis.comparison import Comparison
from loadkit.report.comparison import tables, words
from loadkit.report.tables import Table

_TONES = {"valid": "bold green", "open": "bold yellow", "invalid": "bold red"}
_MARK_STYLES = {"\u2713": "green", "\u2717": "red"}


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
            *(line for table in (settings, slos, *lanes, whole) if table for line in _lines(table)),
            *([Text(f"\nthe same in all   {shared}")] if shared else []),
            *([Text(f"\nreport   {folder / 'index.html'}")] if folder else []),
        ]
    )


def _lines(table: Table) -> list[Text]:
    """Columns as wide as their widest cell: a terminal that is too narrow wraps, and nothing is lost."""
    heads = tuple(name for name, _ in table.heads)
    cells = [heads, *table.rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(heads))]
    title = Text(f"\n{table.title}", "bold")
    return [title, *(_line(table, row, widths, head=row is heads) for row in cells)]


def _line(table: Table, row: tuple[str, ...], widths: list[int], *, head: bool) -> Text:
    line = Text("  ")
    for cell, width, (_, is_text) in zip(row, widths, table.heads, strict=True):
        style = "dim" if head else _MARK_STYLES.get(cell[-1:], "")
        line.append(f"{cell:<{width}}" if is_text else f"{cell:>{width}}", style)
        line.append("  ")
    line.rstrip()
    return line
