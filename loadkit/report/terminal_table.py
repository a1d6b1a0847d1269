"""A table for the terminal, with its title above."""

from rich.text import Text

from loadkit.report.tables import Table

_MARK_STYLES = {"\u2713": "green", "\u2717": "red"}


def lines(table: Table) -> list[Text]:
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
