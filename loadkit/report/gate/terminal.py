"""The verdict for the terminal."""

from pathlib import Path

from rich.text import Text

from loadkit.analysis.gate import Gate
from loadkit.report.gate import tables, words
from loadkit.report.terminal_table import lines

_TONES = {"valid": "bold green", "open": "bold yellow", "invalid": "bold red"}


def terminal_gate(found: Gate, page: Path) -> Text:
    head = words.headline(found)
    reasons = {f"{r.lane}: {r.why}" for r in found.results if r.verdict == "INVALID"}
    return Text("\n").join(
        [
            Text.assemble((head.word, _TONES[head.tone]), f" {head.sentence}".rstrip()),
            *(Text(f"  - {text}") for text in sorted(reasons)),
            *(Text(f"  ~ {text}") for text in found.cautions),
            *lines(tables.short(found)),
            Text(f"\nreport   {page}"),
        ]
    )
