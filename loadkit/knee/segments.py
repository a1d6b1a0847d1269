"""Fresh parts of a trace at any rate: whole windows laid over one another, the last one thinned.

A window keeps its bursts and its conversations; more load is more users at the same time, as in life,
and not the same users faster. Every step of a search draws windows of its own.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadkit.errors import InputError
from loadkit.trace import TraceTable

Rng = np.random.Generator
Rows = NDArray[np.int64]

WINDOWS_MAX = 2000
_NAMES = ("request_id", "session", "parent_id", "prefix_ns")
"""Renamed in every copy, so that no two windows share a conversation, a prompt prefix or an id."""


def segment(
    trace: TraceTable,
    rate_rps: float,
    duration_s: float,
    rng: Rng,
    scaled: Sequence[str] = (),
) -> TraceTable:
    """Part of `trace` in which the `scaled` lanes (none = all) arrive at `rate_rps` for `duration_s`.

    Other lanes come as recorded, once. Raises InputError where the trace cannot give that.
    """
    lanes = trace.table["lane"].cast(pa.string())
    chosen = pc.is_in(lanes, value_set=pa.array(scaled, pa.string())) if scaled else None
    all_rows = np.arange(trace.rows)
    mask = np.ones(trace.rows, bool) if chosen is None else chosen.to_numpy(zero_copy_only=False)
    parts = _windows(trace, all_rows[mask], rate_rps * duration_s, duration_s, rng)
    first_s = parts[0][1]
    if not mask.all():
        parts.append((_within(trace, all_rows[~mask], first_s, duration_s), first_s))
    tables = [_moved(trace, rows, at_s, number) for number, (rows, at_s) in enumerate(parts)]
    table = pa.concat_tables(tables).unify_dictionaries().sort_by("arrival_s")
    table = table.set_column(0, trace.table.schema.field(0), pa.array(np.arange(len(table))))
    return replace(trace, table=table)


def _windows(
    trace: TraceTable,
    rows: Rows,
    wanted: float,
    duration_s: float,
    rng: Rng,
) -> list[tuple[Rows, float]]:
    """Windows until they hold `wanted` requests; of the last one, that share of its conversations."""
    parts: list[tuple[Rows, float]] = []
    missing, latest_s = wanted, max(0.0, trace.span_s - duration_s)
    for _ in range(WINDOWS_MAX):
        start_s = float(rng.uniform(0, latest_s))
        inside = _within(trace, rows, start_s, duration_s)
        if len(inside) > missing:
            inside = _thinned(trace, inside, missing / len(inside), rng)
            parts.append((inside, start_s))
            return parts
        parts.append((inside, start_s))
        missing -= len(inside)
        if missing <= 0:
            return parts
    raise InputError(
        f"the trace is too thin: {WINDOWS_MAX} windows of {duration_s:g} s hold {wanted - missing:.0f}"
        f" of the {wanted:.0f} requests that a step needs",
        hint="a trace with more requests, or a shorter --warm and --measure",
    )


def _within(trace: TraceTable, rows: Rows, start_s: float, duration_s: float) -> Rows:
    arrival_s = trace.table["arrival_s"].to_numpy()[rows]
    found: Rows = rows[(arrival_s >= start_s) & (arrival_s < start_s + duration_s)]
    return found


def _thinned(trace: TraceTable, rows: Rows, share: float, rng: Rng) -> Rows:
    """Whole conversations, each kept with the same probability."""
    taken = trace.table.take(pa.array(rows))
    owner = pc.coalesce(taken["session"], taken["parent_id"], taken["request_id"])
    codes = owner.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    kept = rng.random(int(codes.max()) + 1) < share
    found: Rows = rows[kept[codes]]
    return found


def _moved(trace: TraceTable, rows: Rows, start_s: float, number: int) -> pa.Table:
    """Rows from `start_s` on, moved to 0 and renamed."""
    table = trace.table.take(pa.array(rows))
    for name in ("arrival_s", "deadline_s"):
        index = table.schema.get_field_index(name)
        table = table.set_column(
            index, table.schema.field(index), pc.subtract(table[name], start_s)
        )
    for name in _NAMES:
        index = table.schema.get_field_index(name)
        renamed = pc.binary_join_element_wise(table[name].cast(pa.string()), f"~{number}", "")
        table = table.set_column(
            index, table.schema.field(index), renamed.cast(table.schema.field(index).type)
        )
    return table
