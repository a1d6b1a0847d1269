"""Fresh parts of a trace at any rate: whole windows laid over one another, the last one thinned.

A window keeps its bursts and its conversations; more load is more users at the same time, as in life,
and not the same users faster. Every step of a search draws windows of its own. A window that begins near
the end goes on at the beginning, so that every part of the trace is drawn as often as any other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadkit.errors import InputError
from loadkit.trace import TraceTable

Rng = np.random.Generator
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]

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

    Their number varies as that of random arrivals does (Poisson): at one rate no two minutes are alike.
    Other lanes come as recorded, once. Raises InputError where the trace cannot give that.
    """
    mask = _of_lanes(trace, scaled)
    all_rows = np.arange(trace.rows)
    wanted = max(1, int(rng.poisson(rate_rps * duration_s)))
    parts = _windows(trace, all_rows[mask], wanted, duration_s, rng)
    if not mask.all():
        parts.append(_window(trace, all_rows[~mask], parts[0].start_s, duration_s))
    tables = [_moved(trace, part, number) for number, part in enumerate(parts)]
    table = pa.concat_tables(tables).unify_dictionaries().sort_by("arrival_s")
    table = table.set_column(0, trace.table.schema.field(0), pa.array(np.arange(len(table))))
    return replace(trace, table=table)


def require_length(trace: TraceTable, duration_s: float) -> None:
    """Raises InputError where no window of this length fits."""
    if trace.span_s < duration_s:
        raise InputError(
            f"the trace lasts {trace.span_s:.3g} s, a step of the search {duration_s:g} s",
            hint="a longer trace, or a shorter --warm, --measure and --soak",
        )


def _of_lanes(trace: TraceTable, lanes: Sequence[str]) -> NDArray[np.bool_]:
    if not lanes:
        return np.ones(trace.rows, bool)
    names = trace.table["lane"].cast(pa.string())
    found: NDArray[np.bool_] = pc.is_in(names, value_set=pa.array(lanes, pa.string())).to_numpy()
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of the trace, and by how much each is moved so that the window begins at 0."""

    start_s: float
    rows: Rows
    shift_s: Floats


def _windows(
    trace: TraceTable, rows: Rows, wanted: int, duration_s: float, rng: Rng
) -> list[_Part]:
    """Windows until they hold `wanted` requests; of the last one, that share of its conversations."""
    parts: list[_Part] = []
    missing = wanted
    for _ in range(WINDOWS_MAX):
        part = _window(trace, rows, float(rng.uniform(0, _round_s(trace))), duration_s)
        if len(part.rows) > missing:
            parts.append(_thinned(trace, part, missing / len(part.rows), rng))
            return parts
        parts.append(part)
        missing -= len(part.rows)
        if missing <= 0:
            return parts
    raise InputError(
        f"the trace is too thin: {WINDOWS_MAX} windows of {duration_s:g} s hold {wanted - missing}"
        f" of the {wanted} requests that a step needs",
        hint="a trace with more requests, or a shorter --warm and --measure",
    )


def _round_s(trace: TraceTable) -> float:
    """After so long the trace begins again: one mean gap after its last arrival."""
    return trace.span_s * (1 + 1 / max(1, trace.rows - 1)) or 1.0


def _window(trace: TraceTable, rows: Rows, start_s: float, duration_s: float) -> _Part:
    """What arrives within `duration_s` of `start_s`."""
    round_s = _round_s(trace)
    arrival_s = trace.table["arrival_s"].to_numpy()
    at_s, from_s = arrival_s[rows], arrival_s[0] + start_s
    shift_s = np.where(at_s >= from_s, -from_s, round_s - from_s)
    inside = (at_s + shift_s) < duration_s
    return _Part(start_s, rows[inside], shift_s[inside])


def _thinned(trace: TraceTable, part: _Part, share: float, rng: Rng) -> _Part:
    """Whole conversations, each kept with the same probability."""
    taken = trace.table.take(pa.array(part.rows))
    owner = pc.coalesce(taken["session"], taken["parent_id"], taken["request_id"])
    codes = owner.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    kept = (rng.random(int(codes.max()) + 1) < share)[codes]
    return _Part(part.start_s, part.rows[kept], part.shift_s[kept])


def _moved(trace: TraceTable, part: _Part, number: int) -> pa.Table:
    """The rows at their new instants, under names of their own."""
    table = trace.table.take(pa.array(part.rows))
    for name in ("arrival_s", "deadline_s"):
        index = table.schema.get_field_index(name)
        moved = pc.add(table[name], pa.array(part.shift_s))
        table = table.set_column(index, table.schema.field(index), moved)
    for name in _NAMES:
        index = table.schema.get_field_index(name)
        renamed = pc.binary_join_element_wise(table[name].cast(pa.string()), f"~{number}", "")
        table = table.set_column(
            index, table.schema.field(index), renamed.cast(table.schema.field(index).type)
        )
    return table
