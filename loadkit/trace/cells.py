"""Text and JSON cells become typed columns; a cell that does not fit is named with its file and line."""

import json
import re
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from loadkit.errors import TraceError
from loadkit.trace.source import Source, line_number

TOKENS_MAX = 2**31 - 1
_SHOWN_CHARS = 40


class _Kind(NamedTuple):
    pattern: str
    type: Any
    want: str


_INTEGER = _Kind(r"^[+-]?\d{1,18}$", pa.int64(), "an integer")
_NUMBER = _Kind(r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$", pa.float64(), "a number")


class Place(NamedTuple):
    """Where a block of rows starts: its first row is the `first`-th non-blank line (from 0)."""

    source: Source
    first: int

    def bad_cell(self, index: int, name: str, cell: object, want: str) -> TraceError:
        line = line_number(self.source, self.first + index)
        return bad_cell(self.source, line, name, cell, want)


def bad_cell(source: Source, line: int, name: str, cell: object, want: str) -> TraceError:
    return TraceError(
        f"{source.path}:{line}: {name} is {shown(cell)} (want {want})",
        hint=f"correct or remove that line; was {source.path.name} downloaded whole?",
    )


def shown(cell: object) -> str:
    """A cell as it may be printed: escaped and bounded."""
    text = repr(cell)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def token_counts(cells: Any, name: str, place: Place, *, null: bool = False) -> Any:
    """Text → int32, 0 or more. An empty cell is null where `null` allows it. Raises TraceError."""
    return whole_numbers(cells, name, place, null=null, low=0, high=TOKENS_MAX).cast(pa.int32())


def whole_numbers(cells: Any, name: str, place: Place, *, null: bool, low: int, high: int) -> Any:
    numbers = _parsed(cells, name, place, _INTEGER, null=null)
    outside = pc.fill_null(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), False)
    _blame(outside, cells, name, place, f"an integer from {low} to {high}")
    return numbers


def real_numbers(cells: Any, name: str, place: Place, *, null: bool = False) -> Any:
    """Text → float64, finite. Raises TraceError."""
    numbers = _parsed(cells, name, place, _NUMBER, null=null)
    unbounded = pc.fill_null(pc.invert(pc.is_finite(numbers)), False)
    _blame(unbounded, cells, name, place, "a finite number")
    return numbers


def _parsed(cells: Any, name: str, place: Place, kind: _Kind, *, null: bool) -> Any:
    text = pc.utf8_trim_whitespace(cells)
    if null:
        text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    fits = pc.fill_null(pc.match_substring_regex(text, kind.pattern), null)
    _blame(pc.invert(fits), cells, name, place, kind.want)
    return pc.replace_substring_regex(text, r"^\+", "").cast(kind.type)


def _blame(wrong: Any, cells: Any, name: str, place: Place, want: str) -> None:
    index = pc.index(wrong, True).as_py()
    if index >= 0:
        raise place.bad_cell(index, name, cells[index].as_py(), want)


def column_from_text(cells: Any, field: pa.Field, place: Place) -> Any:
    """A CSV column of the canonical schema. Raises TraceError."""
    kind = field.type
    if pa.types.is_integer(kind):
        low, high = (-TOKENS_MAX, TOKENS_MAX) if field.name == "priority" else (0, TOKENS_MAX)
        high = 2**63 - 1 if kind == pa.int64() else high
        return whole_numbers(cells, field.name, place, null=True, low=low, high=high).cast(kind)
    if pa.types.is_floating(kind):
        needed = field.name == "arrival_s"
        return real_numbers(cells, field.name, place, null=not needed).cast(kind)
    if pa.types.is_boolean(kind) or pa.types.is_list(kind):
        values = [
            _json_cell(cell, field, place, index) for index, cell in enumerate(cells.to_pylist())
        ]
        return pa.array(values, kind)
    text = pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells)
    return text if field.name != "payload" else compressed(text.to_pylist())


def _json_cell(cell: str, field: pa.Field, place: Place, index: int) -> Any:
    try:
        value = json.loads((cell.lower() if pa.types.is_boolean(field.type) else cell) or "null")
        pa.array([value], field.type)
    except (ValueError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise place.bad_cell(index, field.name, cell, f"JSON of type {field.type}") from error
    return value


def compressed(texts: list[str | None]) -> Any:
    """Request bodies (JSON text) → zstd."""
    codec = pa.Codec("zstd")
    bodies = [
        None if text is None else codec.compress(text.encode(), asbytes=True) for text in texts
    ]
    return pa.array(bodies, pa.large_binary())


def decompressed(body: bytes | None) -> bytes | None:
    if body is None:
        return None
    with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
        return bytes(stream.read())


def is_word(text: str) -> bool:
    """A lane, tenant or model name fit to print and to put in a header."""
    return re.fullmatch(r"[\w.:/@+-]{1,64}", text) is not None
