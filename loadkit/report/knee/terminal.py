"""The search for the terminal: the answer, the numbers, what a reader must know."""

from pathlib import Path

from rich.text import Text

from loadkit.analysis.knee.result import KneeResult
from loadkit.report.knee import tables, words
from loadkit.report.terminal_table import lines

_TONES = {"valid": "bold green", "open": "bold yellow", "invalid": "bold red"}


def terminal_knee(result: KneeResult, page: Path) -> Text:
    head = words.headline(result)
    shown = [table for table in (tables.found(result), tables.sharing(result)) if table]
    return Text("\n").join(
        [
            Text.assemble((head.word, _TONES[head.tone]), f" {head.sentence}".rstrip()),
            *(Text(paragraph) for paragraph in words.answer(result)),
            *(Text(f"  ~ {text}") for text in result.cautions),
            *(line for table in shown for line in lines(table)),
            Text(f"\nreport   {page}"),
        ]
    )
