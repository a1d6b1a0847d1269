"""The summary that fits a pull request."""

from loadkit.analysis import RunSummary
from loadkit.errors import printable
from loadkit.report import tables, words
from loadkit.report.tables import Table

_MOST_REASONS = 8


def markdown(summary: RunSummary) -> str:
    manifest = summary.manifest
    source, url = manifest.trace.get("source", "a trace"), manifest.target.get("url", "a target")
    blocks = [
        f"## {words.verdict(summary)}: {_safe(summary.path.name)}",
        f"{_safe(str(source))} against {_safe(str(url))}, {_safe(manifest.created_utc)}",
        _bullets(summary.validity.reasons),
        *(_safe(paragraph) for paragraph in words.answer(summary)),
        _grid(tables.at_a_glance(summary.lanes)) if summary.lanes else "",
        _grid(tables.slos(summary)) if summary.slos else "",
        _grid(tables.ledger(summary)),
        _bullets([f"note: {warning}" for warning in summary.validity.warnings]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _bullets(texts: list[str]) -> str:
    return "\n".join(f"- {_safe(text)}" for text in texts[:_MOST_REASONS])


def _grid(table: Table) -> str:
    heads = [name for name, _ in table.heads]
    rules = [":--" if text else "--:" for _, text in table.heads]
    lines = [heads, rules, *([_safe(cell) for cell in row] for row in table.rows)]
    grid = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{grid}\n\n{table.note}" if table.note else grid


def _safe(text: str) -> str:
    """No HTML, table break, line break or link out of text that a server or a trace wrote."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return printable(" ".join(text.split()))
