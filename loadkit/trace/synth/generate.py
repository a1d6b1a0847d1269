"""A preset, a duration, a rate and a seed become a canonical table.

Every tenant draws from streams of its own, so adding one leaves the others' draws as they were.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from loadkit.errors import InputError
from loadkit.model import BATCH, INTERACTIVE, TraceInfo
from loadkit.trace.raw import Seconds
from loadkit.trace.schema import SCHEMA_VERSION, conform, constant
from loadkit.trace.synth.chat import (
    BLOCK_TOKENS,
    ChatRows,
    block_ids,
    chat_rows,
    mean_turns,
    warm_up_s,
)
from loadkit.trace.synth.jobs import BatchRows, batch_rows
from loadkit.trace.synth.presets import Chat
from loadkit.trace.synth.process import (
    Counts,
    Day,
    day_curve,
    grid_s,
    integrated,
    modulator,
    renewal_arrivals,
    zipf_shares,
)
from loadkit.trace.synth.spec import GENERATOR_VERSION, Resolved, Spec, resolve
from loadkit.trace.table import TraceTable

_MODULATORS, _TENANTS, _JOBS = range(3)  # branches of the seed


def synthesize(spec: Spec) -> TraceTable:
    """Raises InputError on parameters that cannot be."""
    return _made(resolve(spec))


def _made(spec: Resolved) -> TraceTable:
    tables = [*_chat_tables(spec), *_batch_tables(spec)]
    if not sum(table.num_rows for table in tables):
        raise InputError("no request fell into the duration", hint="raise --rate or --duration")
    table = _sorted(pa.concat_tables(tables))
    info = TraceInfo("synthetic", f"synth.{spec.preset}", spec.identity, table.num_rows)
    return TraceTable(table, info, _meta(spec, table.num_rows))


def _rng(spec: Resolved, *branch: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(spec.seed, spawn_key=branch))


def _chat_tables(spec: Resolved) -> list[pa.Table]:
    chat, day = spec.tables.chat, Day(spec.day_s, spec.start_hour)
    grid = grid_s(-warm_up_s(chat, day), spec.duration_s)
    expected = integrated(_session_rate(spec, chat, day, grid), grid)
    tables = []
    for tenant, share in enumerate(zipf_shares(spec.tenants, chat.tenant_zipf)):
        starts_s = renewal_arrivals(
            share * expected, grid, chat.arrival_cv, _rng(spec, _TENANTS, tenant, 0)
        )
        rows = chat_rows(chat, starts_s, spec.duration_s, day, _rng(spec, _TENANTS, tenant, 1))
        tables.append(_chat_table(spec.preset, f"tenant-{tenant:02d}", rows))
    return tables


def _session_rate(spec: Resolved, chat: Chat, day: Day, grid: Seconds) -> Seconds:
    """Session starts per second, so that requests average `rate_rps` over the duration."""
    shape = day_curve(chat, day.hours(grid))
    for index, law in enumerate(chat.modulators):
        shape = shape * modulator(law, grid, day, _rng(spec, _MODULATORS, index))
    mean: float = shape[grid >= 0].mean()
    return spec.rate_rps / mean_turns(chat) / mean * shape


def _batch_tables(spec: Resolved) -> list[pa.Table]:
    rows = round(spec.rate_rps * spec.duration_s * spec.batch_share / (1 - spec.batch_share))
    if not rows:
        return []
    batch, day = spec.tables.batch, Day(spec.day_s, spec.start_hour)
    grid = grid_s(0.0, spec.duration_s)
    return [
        _batch_table(
            spec.preset, batch.pipelines, batch_rows(batch, rows, grid, day, _rng(spec, _JOBS))
        )
    ]


def _chat_table(preset: str, tenant: str, rows: ChatRows) -> pa.Table:
    count = rows.session.size
    session = [f"{tenant}-s{number}" for number in rows.session.tolist()]
    turn = rows.turn.tolist()
    ids = [f"{name}-t{number}" for name, number in zip(session, turn, strict=True)]
    parents = [
        f"{name}-t{number - 1}" if number else None
        for name, number in zip(session, turn, strict=True)
    ]
    columns = {
        "request_id": pa.array(ids, pa.string()),
        "arrival_s": rows.arrival_s,
        "lane": constant(INTERACTIVE, count),
        "lane_from": constant("rule:synth", count),
        "tenant": constant(tenant, count),
        "session": pa.array(session, pa.string()),
        "turn": rows.turn,
        "parent_id": pa.array(parents, pa.string()),
        "think_s": pa.array(np.round(rows.think_s, 3), from_pandas=True),
        "prompt_tokens": rows.prompt_tokens,
        "output_tokens": rows.output_tokens,
        "prefix_ids": _prefixes(
            rows.prompt_tokens, rows.shared_blocks, rows.shared_first_id, rows.own_first_id
        ),
        "prefix_ns": constant(tenant, count),
    }
    return _table(preset, columns, count)


def _batch_table(preset: str, pipelines: int, rows: BatchRows) -> pa.Table:
    count = rows.job.size
    jobs = [f"job-{job:03d}" for job in rows.job.tolist()]
    ids = [f"{job}-{row}" for job, row in zip(jobs, rows.row.tolist(), strict=True)]
    own_first = 1_000_000 + rows.row * 1000
    columns = {
        "request_id": pa.array(ids),
        "arrival_s": rows.arrival_s,
        "lane": constant(BATCH, count),
        "lane_from": constant("assumed", count),
        "tenant": pa.array([f"pipeline-{job % pipelines}" for job in rows.job.tolist()]),
        "batch_id": pa.array(jobs),
        "deadline_s": np.round(rows.deadline_s, 6),
        "prompt_tokens": rows.prompt_tokens,
        "output_tokens": rows.output_tokens,
        "prefix_ids": _prefixes(
            rows.prompt_tokens, rows.template_tokens // BLOCK_TOKENS, rows.job * 0, own_first
        ),
        "prefix_ns": pa.array(jobs),
    }
    return _table(preset, columns, count)


def _prefixes(prompt: Counts, shared: Counts, shared_first: Counts, own_first: Counts) -> Any:
    offsets, ids = block_ids(prompt // BLOCK_TOKENS, shared, shared_first, own_first)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids, pa.int64()))


def _table(preset: str, columns: dict[str, Any], count: int) -> pa.Table:
    made = {
        "seq": np.zeros(count, np.int64),
        "prefix_block": np.full(count, BLOCK_TOKENS),
        "token_source": constant("estimated", count),
        "status": constant("ok", count),
        "source": constant(f"synth.{preset}", count),
    }
    # Microseconds: below that, libm of one platform may differ from another's.
    rounded = np.floor(np.asarray(columns["arrival_s"]) * 1e6) / 1e6
    return conform(made | columns | {"arrival_s": rounded}, count).unify_dictionaries()


def _sorted(table: pa.Table) -> pa.Table:
    order = np.argsort(table["arrival_s"].to_numpy(), kind="stable")
    table = table.unify_dictionaries().combine_chunks().take(pa.array(order))
    return table.set_column(0, table.schema.field(0), pa.array(np.arange(table.num_rows)))


def _meta(spec: Resolved, rows: int) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "t0_utc": None,
        "time_resolution_s": 1e-6,
        "sources": [{"name": f"synth.{spec.preset}", "sha256": spec.identity, "known": None}],
        "format": "synthetic",
        "rows_read": rows,
        "rows_written": rows,
        "drops": {},
        "repairs": {},
        "warnings": [],
        "segments": 1,
        "segment_boundaries": [],
        "generator": {
            "name": "loadkit.synth",
            "version": GENERATOR_VERSION,
            "params": spec.params,
            "identity": spec.identity,
        },
    }
