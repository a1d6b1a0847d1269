"""Parsed columns become a trace: checked, one segment chosen, sorted, counted, completed.

Every row read is kept or counted under a reason; nothing is dropped in silence.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadkit.errors import TraceError
from loadkit.model import INTERACTIVE, TraceInfo
from loadkit.trace import known
from loadkit.trace.order import JITTER_S, Order, ordered, refuse_restarts
from loadkit.trace.raw import Raw, ReadOptions, Seconds
from loadkit.trace.schema import SCHEMA_VERSION, STATUSES, conform, constant
from loadkit.trace.source import Source, line_number, sha256_of
from loadkit.trace.table import TraceTable

_YEAR_S = 365.25 * 86400


@dataclass(frozen=True, slots=True)
class Sorted:
    """The chosen rows of a Raw, in time order."""

    columns: dict[str, Any]
    arrival_s: Seconds
    shift_s: float
    """What was subtracted from the file's own times."""
    order: Order


def assemble(
    name: str, raw: Raw, source: Source, options: ReadOptions, *, refuse_segments: bool
) -> TraceTable:
    """Raises TraceError."""
    _require_times(source, raw)
    rows = _sorted(source, raw, options)
    if refuse_segments and options.segment is None:
        refuse_restarts(source, rows.order)
    digest = sha256_of(source.path)
    columns, repairs = _completed(source, raw, rows, options, known.source_name(digest))
    table = conform(columns, len(rows.arrival_s))
    info = TraceInfo(
        format=name,
        source=str(source.path),
        sha256=digest,
        rows_read=len(raw.arrival_s),
        drops=_positive({"other_segment": len(raw.arrival_s) - len(rows.arrival_s)}),
        repairs=_positive(repairs),
        warnings=raw.warnings + _warnings(source, rows, digest),
        t0_utc=_t0_utc(raw, rows.shift_s),
    )
    assert info.rows_read == table.num_rows + sum(info.drops.values())
    return TraceTable(table, info, _meta(info, raw, rows.order, source))


def _require_times(source: Source, raw: Raw) -> None:
    """Text readers name the line; this is the last guard, and the only one for Parquet."""
    wrong = ~np.isfinite(raw.arrival_s)
    if not raw.rebase:
        wrong |= raw.arrival_s < 0
    if wrong.any():
        row = int(wrong.argmax())
        line = row + 1 if source.is_parquet else line_number(source, row + raw.first_line - 1)
        raise TraceError(
            f"{source.path}:{line}: arrival_s is {raw.arrival_s[row]} "
            "(want seconds from the start, 0 or more)",
            hint="subtract the time of the first request",
        )


def _sorted(source: Source, raw: Raw, options: ReadOptions) -> Sorted:
    order = ordered(source, raw.arrival_s, options.segment)
    arrival_s = raw.arrival_s[order.rows]
    shift_s = float(arrival_s[0]) if raw.rebase else 0.0
    columns = dict(raw.columns)
    if "source_row" not in columns:
        columns["source_row"] = pa.array(np.arange(len(raw.arrival_s)) + raw.first_line)
    if order.out_of_order or order.segments > 1:
        columns = {key: column.take(pa.array(order.rows)) for key, column in columns.items()}
    return Sorted(columns, arrival_s - shift_s, shift_s, order)


def _completed(
    source: Source, raw: Raw, rows: Sorted, options: ReadOptions, public: str | None
) -> tuple[dict[str, Any], dict[str, int]]:
    count = len(rows.arrival_s)
    columns = rows.columns | {"seq": np.arange(count), "arrival_s": rows.arrival_s}
    columns |= _lanes(columns, options, count)
    columns["source"] = _filled(columns.get("source"), public or raw.source, count)
    columns["request_id"] = _ids(source, columns, public or raw.source)
    columns["parent_id"], orphans = _parents(columns, count)
    _require_prefixes_fit(source, columns)
    columns["status"], failed = _statuses(source, columns, count)
    repairs = {
        "sorted": rows.order.out_of_order,
        "zero_tokens_marked_error": failed,
        "orphan_turn_made_root": orphans,
    }
    return columns, repairs


def _filled(column: Any, word: str, count: int) -> Any:
    return constant(word, count) if column is None else pc.fill_null(column.cast(pa.string()), word)


def _lanes(columns: dict[str, Any], options: ReadOptions, count: int) -> dict[str, Any]:
    if options.lane is not None:
        return {"lane": constant(options.lane, count), "lane_from": constant("rule:lane", count)}
    recorded = columns.get("lane")
    default = "assumed" if recorded is None else "recorded"
    return {
        "lane": _filled(recorded, INTERACTIVE, count),
        "lane_from": _filled(columns.get("lane_from"), default, count),
    }


def _ids(source: Source, columns: dict[str, Any], prefix: str) -> Any:
    """`azure2023.conv:17` where the file has no id of its own. Raises TraceError on a repeated id."""
    row = columns["source_row"].cast(pa.string())
    made = pc.binary_join_element_wise(prefix, row, ":")
    given = columns.get("request_id")
    if given is None:
        return made
    ids = pc.coalesce(given.cast(pa.string()), made)
    counts = pc.value_counts(ids)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        first = repeated[0].as_py()
        raise TraceError(
            f"{source.path}: request_id {first['values'][:40]!r} stands in {first['counts']} rows",
            hint="request ids must be unique; leave the column out to have them made",
        )
    return ids


def _parents(columns: dict[str, Any], count: int) -> tuple[Any, int]:
    """A parent outside the file cannot be waited for: its turn becomes a root."""
    parent = columns.get("parent_id")
    if parent is None:
        return pa.nulls(count, pa.string()), 0
    present = pc.is_in(parent, value_set=_flat(columns["request_id"]))
    kept = pc.if_else(present, parent, pa.scalar(None, pa.string()))
    return kept, kept.null_count - parent.null_count


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _require_prefixes_fit(source: Source, columns: dict[str, Any]) -> None:
    ids, block, prompt = (columns.get(n) for n in ("prefix_ids", "prefix_block", "prompt_tokens"))
    if ids is None:
        return
    if block is None:
        raise TraceError(f"{source.path}: has prefix_ids without prefix_block", hint="add it")
    covered = pc.multiply(pc.list_value_length(ids), block.cast(pa.int32()))
    over = pc.greater_equal(pc.subtract(covered, block), pc.add(prompt, 0))
    wrong = pc.and_(pc.fill_null(over, False), pc.greater(pc.fill_null(covered, 0), 0))
    index = pc.index(wrong, True).as_py()
    if index >= 0:
        name = columns["request_id"][index].as_py()
        raise TraceError(
            f"{source.path}: prefix_ids of {name} cover more than its prompt_tokens",
            hint="prefix_block is the number of tokens per id; check it",
        )


def _statuses(source: Source, columns: dict[str, Any], count: int) -> tuple[Any, int]:
    """Zero-token rows were failures where nothing else is said. Null is not 0."""
    given = columns.get("status")
    if given is not None:
        unknown = set(pc.unique(given.cast(pa.string())).to_pylist()) - {*STATUSES, None}
        if unknown:
            raise TraceError(
                f"{source.path}: status {min(unknown)[:40]!r} is not known",
                hint=f"one of {', '.join(STATUSES)}",
            )
    tokens = [columns[name] for name in ("prompt_tokens", "output_tokens") if name in columns]
    empty = pa.array(np.zeros(count, bool))
    for column in tokens:
        empty = pc.or_(empty, pc.fill_null(pc.equal(column, 0), False))
    status = pa.nulls(count, pa.string()) if given is None else given.cast(pa.string())
    untold = pc.is_null(status)
    marked = int(pc.sum(pc.and_(empty, untold)).as_py() or 0)
    return pc.coalesce(status, pc.if_else(empty, "error", "ok")), marked


def _positive(counts: dict[str, int]) -> dict[str, int]:
    return {reason: number for reason, number in counts.items() if number}


def _t0_utc(raw: Raw, shift_s: float) -> str | None:
    if raw.t0_ns is None:
        told: str | None = raw.facts.get("origin", {}).get("t0_utc")
        return told
    micros = raw.t0_ns // 1000 + round(shift_s * 1e6)
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return instant.isoformat()


def _warnings(source: Source, rows: Sorted, digest: str) -> tuple[str, ...]:
    order, span_s, count = rows.order, float(rows.arrival_s[-1]), len(rows.arrival_s)
    checks = {
        f"the clock starts again: this is segment {order.segment} of {order.segments}": (
            order.segments > 1
        ),
        f"rows up to {order.largest_step_back_s:.0f} s out of order were sorted": (
            order.largest_step_back_s > JITTER_S
        ),
        f"{count} rows in {span_s:.3g} s: are the times in the right unit?": (
            count > 1000 and span_s < count / 1000 and np.unique(rows.arrival_s).size > 1
        ),
        f"spans {span_s / _YEAR_S:.0f} years: are the times in the right unit?": (
            span_s > 10 * _YEAR_S
        ),
        f"named like the public trace {source.path.name}, but not its published bytes": (
            known.is_known(source.path, digest) is False
        ),
    }
    return tuple(text for text, applies in checks.items() if applies)


def _meta(info: TraceInfo, raw: Raw, order: Order, source: Source) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "t0_utc": info.t0_utc,
        "sources": [
            {
                "name": source.path.name,
                "sha256": info.sha256,
                "known": known.is_known(source.path, info.sha256),
            }
        ],
        "format": info.format,
        "rows_read": info.rows_read,
        "rows_written": info.rows_read - sum(info.drops.values()),
        "drops": dict(info.drops),
        "repairs": dict(info.repairs),
        "warnings": list(info.warnings),
        "segments": order.segments,
        "segment_boundaries": list(order.starts[1:]),
        **raw.facts,
    }
