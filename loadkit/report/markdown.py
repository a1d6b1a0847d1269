"""The summary that fits a pull request."""

from loadkit.analysis import RunSummary
from loadkit.errors import printable
from loadkit.report import tables, words
from loadkit.report.tables import Table

_MOST_REASONS = 8
_MOST_TENANTS = 5
_SHOWN_FACTS = ("Model", "Engine", "Replayed", "Workers")


def markdown(summary: RunSummary) -> str:
    """Verdict, answer, lanes, SLOs and failures at once; the rest opens on a click."""
    blocks = [
        f"## {words.verdict(summary)}: {safe(summary.path.name)}",
        *(safe(line) for line in _what_ran(summary)),
        bullets(summary.validity.reasons),
        *(safe(paragraph) for paragraph in words.answer(summary)),
        grid(tables.at_a_glance(summary.lanes)) if summary.lanes else "",
        grid(tables.slos(summary)) if summary.slos else "",
        _titled(tables.failures(summary)),
        safe(words.littles_law(summary)),
        bullets([f"note: {warning}" for warning in summary.validity.warnings]),
        _folded(_tenants(summary)),
        _folded(tables.ledger(summary)),
        _events(summary),
        _folded(_facts(summary)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _what_ran(summary: RunSummary) -> tuple[str, str]:
    manifest, known = summary.manifest, dict(words.what_ran(summary))
    source, url = manifest.trace.get("source", "a trace"), manifest.target.get("url", "a target")
    shown = (f"{name.lower()} {known[name]}" for name in _SHOWN_FACTS if name in known)
    return f"{source} against {url}, {manifest.created_utc}", "; ".join(shown)


def _facts(summary: RunSummary) -> Table:
    """Everything that is needed to do it again."""
    rows = (*words.what_ran(summary), ("Command", " ".join(summary.manifest.command)))
    return Table("What ran", ("<fact", "<value"), rows)


def _tenants(summary: RunSummary) -> Table | None:
    largest = sorted(summary.tenants, key=lambda tenant: -tenant.offered)[:_MOST_TENANTS]
    return tables.at_a_glance(largest, "Largest tenants") if largest else None


def bullets(texts: list[str]) -> str:
    hidden = [f"and {len(texts) - _MOST_REASONS} more"] if len(texts) > _MOST_REASONS else []
    return "\n".join(f"- {safe(text)}" for text in [*texts[:_MOST_REASONS], *hidden])


def _events(summary: RunSummary) -> str:
    found = words.events(summary)
    return _details("Events", bullets(found)) if found else ""


def _titled(table: Table | None) -> str:
    return f"### {table.title}\n\n{grid(table)}" if table else ""


def _folded(table: Table | None) -> str:
    return _details(table.title, grid(table)) if table else ""


def _details(title: str, block: str) -> str:
    """Opens on a click where Markdown is shown as HTML."""
    return f"<details><summary>{title}</summary>\n\n{block}\n\n</details>"


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
    return printable(" ".join(text.split()))
