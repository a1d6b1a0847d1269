"""loadkit's own columns as Parquet, JSONL or CSV. A row needs a time and two token counts, no more.

Columns that the schema does not know travel in `extra`. Foreign files with obvious names
(`timestamp_ms`, `input_length`) are read too; a bare `timestamp` needs a unit from the user.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from loadkit.errors import TraceError
from loadkit.trace import csvfile, jsonl
from loadkit.trace.cells import Place, column_from_text
from loadkit.trace.json_cells import json_column
from loadkit.trace.jsonl import JsonRow
from loadkit.trace.raw import TIME_UNITS_S, Raw, ReadOptions, as_seconds, joined
from loadkit.trace.schema import (
    META_KEY,
    REQUIRED,
    SCHEMA_VERSION,
    TRACE_SCHEMA,
    conform,
    missing_column,
)
from loadkit.trace.source import Source

_TOKEN_ALIASES = {"input_length": "prompt_tokens", "output_length": "output_tokens"}
_TIME_ALIASES = {"timestamp_s": 1.0, "timestamp_ms": 1e-3, "arrival_ms": 1e-3}
_BARE_TIME = "timestamp"
_RECOMPUTED = {"seq"}


class Names(NamedTuple):
    """Which column is which, and how the file tells time."""

    canonical: dict[str, str]
    """Name in the file → name in the schema."""
    unit_s: float = 1.0
    rebase: bool = False
    """A foreign time axis starts anywhere: its first instant becomes 0."""


def sniff_csv(source: Source) -> bool:
    return _looks_own(csvfile.header(source))


def sniff_jsonl(source: Source) -> bool:
    return _looks_own(jsonl.first_object(source))


def _looks_own(names: Iterable[str]) -> bool:
    known = {"arrival_s", *_TIME_ALIASES} & set(names)
    generic = _BARE_TIME in names and set(_TOKEN_ALIASES) | {"prompt_tokens"} & set(names)
    return bool(known or generic)


def read_csv(source: Source, options: ReadOptions) -> Raw:
    """Raises TraceError."""
    header = csvfile.header(source)
    names = _named(source, header, options)
    chunks = [_text_chunk(batch, place, names) for batch, place in csvfile.blocks(source, header)]
    return replace(_raw("csv", joined(chunks), names), first_line=2)


def _text_chunk(batch: pa.RecordBatch, place: Place, names: Names) -> dict[str, Any]:
    chunk = {
        to: column_from_text(batch[name], TRACE_SCHEMA.field(to), place)
        for name, to in names.canonical.items()
    }
    known = {*names.canonical, *_RECOMPUTED}
    others = [name for name in batch.schema.names if name not in known]
    return chunk | _extra(batch.select(others).to_pylist(), others)


def _extra(rows: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    return {"extra": pa.array([json.dumps(row, default=str) for row in rows])} if names else {}


def _named(source: Source, found: Iterable[str], options: ReadOptions) -> Names:
    """Match names of the file to the schema. Raises TraceError when a needed one is missing."""
    found = list(found)
    canonical = {
        name: name for name in found if name in TRACE_SCHEMA.names and name not in _RECOMPUTED
    }
    for name, to in _TOKEN_ALIASES.items():
        if name in found and to not in canonical:
            canonical[name] = to
    unit_s, rebase = 1.0, False
    time = next((name for name in (*_TIME_ALIASES, _BARE_TIME) if name in found), None)
    if "arrival_s" not in canonical and time is not None:
        canonical[time], rebase = "arrival_s", True
        unit_s = _TIME_ALIASES.get(time) or _asked_unit_s(source, options)
    missing = missing_column(canonical.values())
    if missing:
        raise TraceError(
            f"{source.path}: no {missing!r} (found {', '.join(found)[:200]!r})",
            hint=f"a trace needs {', '.join(REQUIRED)}",
        )
    return Names(canonical, unit_s, rebase)


def _asked_unit_s(source: Source, options: ReadOptions) -> float:
    if options.time_unit is None:
        raise TraceError(
            f"{source.path}: the unit of 'timestamp' is not known",
            hint="say it: --time-unit s or --time-unit ms",
        )
    return TIME_UNITS_S[options.time_unit]


def read_jsonl(source: Source, options: ReadOptions) -> Raw:
    """Raises TraceError."""
    names = Names({})
    chunks = []
    for block in jsonl.blocks(source):
        found = dict.fromkeys(name for row in block for name in row.values)
        names = _named(source, found, options)
        chunks.append(_json_chunk(source, block, names))
    return _raw("jsonl", joined(_same_columns(chunks)), names)


def _json_chunk(source: Source, block: list[JsonRow], names: Names) -> dict[str, Any]:
    chunk = {to: json_column(source, block, name, to) for name, to in names.canonical.items()}
    known = {*names.canonical, *_RECOMPUTED}
    extras = [
        {name: value for name, value in row.values.items() if name not in known} for row in block
    ]
    if any(extras):
        chunk["extra"] = pa.array([json.dumps(extra) if extra else None for extra in extras])
    return chunk


def _same_columns(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A column that appears only later in the file is null before."""
    kinds = {name: column.type for chunk in chunks for name, column in chunk.items()}
    return [
        {
            name: chunk.get(name, pa.nulls(len(chunk["arrival_s"]), kind))
            for name, kind in kinds.items()
        }
        for chunk in chunks
    ]


def read_parquet(source: Source, _options: ReadOptions) -> Raw:
    """Raises TraceError."""
    try:
        table = pq.read_table(source.path)
    except (pa.ArrowInvalid, OSError) as error:
        raise TraceError(
            f"{source.path}: is Parquet, but cut short or damaged",
            hint="make or download it again",
        ) from error
    missing = missing_column(table.schema.names)
    if missing or not table.num_rows:
        what = f"no column {missing!r}" if missing else "has no rows"
        raise TraceError(f"{source.path}: {what}", hint=f"a trace needs {', '.join(REQUIRED)}")
    known = [name for name in table.schema.names if name in TRACE_SCHEMA.names]
    others = [name for name in table.schema.names if name not in TRACE_SCHEMA.names]
    columns = {name: table[name] for name in known if name not in _RECOMPUTED}
    if others and "extra" not in columns:
        columns |= _extra(table.select(others).to_pylist(), others)
    return _typed(source, columns, table)


def _typed(source: Source, columns: dict[str, Any], table: pa.Table) -> Raw:
    try:
        typed = conform(columns, table.num_rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise TraceError(
            f"{source.path}: {str(error)[:160]}", hint=f"the columns must be {SCHEMA_VERSION}"
        ) from error
    meta = json.loads((table.schema.metadata or {}).get(META_KEY, b"{}"))
    raw = _raw("parquet", {name: typed[name] for name in columns}, Names({}))
    if not meta:
        return raw
    return replace(raw, facts={"origin": meta, "time_resolution_s": meta.get("time_resolution_s")})


def _raw(name: str, columns: dict[str, Any], names: Names) -> Raw:
    arrival_s = as_seconds(columns.pop("arrival_s")) * names.unit_s
    return Raw(source=name, columns=columns, arrival_s=arrival_s, rebase=names.rebase)
