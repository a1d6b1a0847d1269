"""Columns of `loadkit.trace/v1` out of JSON objects: each value checked, the bad one named."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from loadkit.errors import TraceError
from loadkit.trace import jsonl
from loadkit.trace.cells import bad_cell, compressed
from loadkit.trace.jsonl import JsonRow
from loadkit.trace.schema import REQUIRED, SCHEMA_VERSION, TRACE_SCHEMA
from loadkit.trace.source import Source


def json_column(source: Source, block: list[JsonRow], name: str, to: str) -> Any:
    """The key `name` of every row as the column `to`. Raises TraceError."""
    if to == "arrival_s":
        return pa.array([jsonl.number(source, row, name) for row in block])
    if to in REQUIRED:
        _require(source, block, name)
    values = [row.values.get(name) for row in block]
    if to == "payload":
        return compressed([None if v is None else json.dumps(v) for v in values])
    kind = TRACE_SCHEMA.field(to).type
    want, fits = _rule(to, kind)
    for row, value in zip(block, values, strict=True):
        if value is not None and not fits(value):
            raise bad_cell(source, row.line, name, value, want)
    return _array(source, block, name, values, _plain(kind))


def _require(source: Source, block: list[JsonRow], name: str) -> None:
    for row in block:
        if name not in row.values:
            raise TraceError(
                f"{source.path}:{row.line}: has no {name}",
                hint=f"every row needs {', '.join(REQUIRED)}; null means unknown",
            )


def _rule(to: str, kind: Any) -> tuple[str, Callable[[Any], bool]]:
    if pa.types.is_integer(kind):
        low = -(2**31) if to == "priority" else 0
        return "an integer", lambda value: type(value) is int and low <= value < 2**31
    if pa.types.is_floating(kind):
        return "a number", lambda value: type(value) in {int, float} and abs(value) < 1e15
    if pa.types.is_boolean(kind):
        return "true or false", lambda value: isinstance(value, bool)
    if pa.types.is_list(kind):
        return "a list", lambda value: isinstance(value, list)
    return "text", lambda value: isinstance(value, str)


def _array(source: Source, block: list[JsonRow], name: str, values: list[Any], kind: Any) -> Any:
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
        raise TraceError(
            f"{source.path}: {name} in lines {block[0].line} to {block[-1].line}: {str(error)[:120]}",
            hint=f"{name} holds {kind} in {SCHEMA_VERSION}",
        ) from error


def _plain(kind: Any) -> Any:
    return pa.string() if pa.types.is_dictionary(kind) else kind
