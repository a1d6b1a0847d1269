"""One JSON object per line, in blocks; a line that is not one is named."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from loadkit.errors import TraceError
from loadkit.trace.cells import TOKENS_MAX, bad_cell, shown
from loadkit.trace.source import Source, lines

_BLOCK_ROWS = 20_000


class JsonRow(NamedTuple):
    line: int
    values: dict[str, Any]


def blocks(source: Source) -> Iterator[list[JsonRow]]:
    """Raises TraceError with file and line."""
    rows = (_row(source, number, line) for number, line in lines(source))
    while block := list(islice(rows, _BLOCK_ROWS)):
        yield block


def first_object(source: Source) -> dict[str, Any]:
    """The first line of the head as an object; empty when it is none."""
    try:
        value = json.loads(source.first_line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _row(source: Source, number: int, line: bytes) -> JsonRow:
    try:
        values = json.loads(line.removeprefix(b"\xef\xbb\xbf"), parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        cut = "" if line.endswith(b"\n") else "; the last line is cut"
        raise TraceError(
            f"{source.path}:{number}: is not JSON ({_reason(error)}{cut})",
            hint="a trace has one JSON object per line; was the file downloaded whole?",
        ) from error
    if not isinstance(values, dict):
        raise TraceError(
            f"{source.path}:{number}: is {shown(values)} (want a JSON object)",
            hint="a trace has one JSON object per line",
        )
    return JsonRow(number, values)


def _reason(error: Exception) -> str:
    return str(error)[:120] if str(error) else "nested too deeply"


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def number(source: Source, row: JsonRow, name: str) -> float:
    """A finite number. Raises TraceError."""
    value = row.values.get(name)
    # The bound refuses what a float would round or overflow (1e999 reads as infinity).
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise bad_cell(source, row.line, name, value, "a number")
    return float(value)


def token_count(source: Source, row: JsonRow, name: str) -> int:
    """An integer, 0 or more. Raises TraceError."""
    value = row.values.get(name)
    if type(value) is not int or not 0 <= value <= TOKENS_MAX:
        raise bad_cell(source, row.line, name, value, "an integer")
    return value
