"""The summary that fits a pull request."""

from loadkit.analysis import RunSummary
from loadkit.report import tables, words
from loadkit.report.tables import Table

_MOST_REASONS = 8


def markdown(summary: RunSummary) -> str:
    manifest = summary.manifest
    source, url = manifest.trace.get("source", "a trace"), manifest.target.get("url", "a target")
    blocks = [
        f"## {words.verdict(summary)}: {safe(summary.path.name)}",
        f"{safe(str(source))} against {safe(str(url))}, {safe(manifest.created_utc)}",
        bullets(summary.validity.reasons),
        *(safe(paragraph) for paragraph in words.answer(summary)),
        grid(tables.at_a_glance(summary.lanes)) if summary.lanes else "",
        grid(tables.slos(summary)) if summary.slos else "",
        grid(tables.ledger(summary)),
        bullets([f"note: {warning}" for warning in summary.validity.warnings]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def bullets(texts: list[str]) -> str:
    return "\n".join(f"- {safe(text)}" for text in texts[:_MOST_REASONS])


def grid(table: Table) -> str:
    heads = [safe(name) for name, _ in table.heads]
    rules = [":--" if text else "--:" for _, text in table.heads]
    lines = [heads, rules, *([safe(cell) for cell in row] for row in table.rows)]
    drawn = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{drawn}\n\n{safe(table.note)}" if table.note else drawn


def safe(text: str) -> str:
    """No HTML, table break, line break or link out of text that a server or a trace wrote."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
