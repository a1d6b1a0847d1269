"""The comparison for the terminal: the answer, a table per lane, what is open."""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from loadkit.analysis.comparison import Comparison
from loadkit.report.comparison import tables, words
from loadkit.report.tables import Table

_TONES = {"valid": "bold green", "open": "bold yellow", "invalid": "bold red"}
_MARK_STYLES = {"✓": "green", "✗": "red"}


def terminal_comparison(comparison: Comparison, folder: Path) -> RenderableType:
    head = words.headline(comparison)
    slos, whole = tables.slos(comparison), tables.whole(comparison)
    shown = [tables.lane(comparison, lane) for lane in comparison.lanes]
    parts: list[RenderableType] = [
        Text.assemble((head.word, _TONES[head.tone]), f" {head.sentence}".rstrip()),
        *(Text(paragraph) for paragraph in words.conclusion(comparison)),
        *(Text(f"  ~ {text}") for text in comparison.cautions),
        *(_grid(table) for table in (slos, *shown, whole) if table),
        Text(f"report   {folder / 'index.html'}"),
    ]
    return Group(*parts)


def _grid(table: Table) -> Grid:
    drawn = Grid(
        title=table.title, title_justify="left", title_style="bold", box=None, padding=(0, 1)
    )
    for name, is_text in table.heads:
        drawn.add_column(Text(name), justify="left" if is_text else "right", no_wrap=is_text)
    for row in table.rows:
        drawn.add_row(*(Text(cell, _MARK_STYLES.get(cell[-1:], "")) for cell in row))
    return drawn
