"""Run directories with a known truth, written through `records` alone."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from loadkit.model import MetricSample, RequestRecord, Send, ServerMetric
from loadkit.records import (
    METRICS_SCHEMA,
    REQUESTS_SCHEMA,
    SCHEDULE_SCHEMA,
    Manifest,
    PartWriter,
    RunDir,
)
from loadkit.records.parts import to_table, write_table

TARGET = "http://127.0.0.1:8000"


def answered(request_id: str, due_s: float, **facts: Any) -> RequestRecord:
    """A request that went well. Shape: `lag_s, ttft_sent_s, gap_s, tokens`; other facts pass through."""
    lag_s, ttft_sent_s = facts.pop("lag_s", 0.001), facts.pop("ttft_sent_s", 0.1)
    gap_s, tokens = facts.pop("gap_s", 0.02), facts.pop("tokens", 11)
    sent_s = due_s + lag_s
    offsets_s = tuple(ttft_sent_s + gap_s * i for i in range(tokens))
    return RequestRecord(
        **{
            "request_id": request_id,
            "lane": "interactive",
            "scheduled_s": due_s,
            "planned_s": due_s,
            "status": "ok",
            "sent_s": sent_s,
            "first_byte_s": sent_s + ttft_sent_s / 2,
            "first_token_s": sent_s + offsets_s[0],
            "last_token_s": sent_s + offsets_s[-1],
            "finished_s": sent_s + offsets_s[-1] + 0.001,
            "chunk_offsets_s": offsets_s,
            "prompt_tokens_planned": 100,
            "output_tokens_planned": tokens,
            "prompt_tokens": 100,
            "output_tokens": tokens,
            "token_source": "usage",
            "finish_reason": "length",
            "http_status": 200,
            "worker": 0,
            "target": TARGET,
            **facts,
        }
    )


def failed(request_id: str, due_s: float, status: str, **facts: Any) -> RequestRecord:
    """A request without an answer; `dropped` ones were never sent."""
    times = {} if status == "dropped" else {"sent_s": due_s + 0.001, "finished_s": due_s + 0.01}
    planned = {"prompt_tokens_planned": 100, "output_tokens_planned": 11}
    return RequestRecord(
        **{
            "request_id": request_id,
            "lane": "interactive",
            "scheduled_s": due_s,
            "status": status,
            **times,
            **planned,
            **facts,
        }
    )


def sample(t_s: float, name: ServerMetric, value: float, **labels: str) -> MetricSample:
    return MetricSample(t_s, TARGET, "vllm", name.value, json.dumps(labels), value)


def worker_sample(t_s: float, name: ServerMetric, value: float, worker: int = 0) -> MetricSample:
    return MetricSample(t_s, f"worker-{worker}", "loadkit", name.value, "{}", value)


def series(name: ServerMetric, values: Iterable[float | None], **labels: str) -> list[MetricSample]:
    """One sample a second from instant 0; None is a second without one."""
    return [sample(float(t), name, v, **labels) for t, v in enumerate(values) if v is not None]


def sends_of(rows: Iterable[RequestRecord]) -> list[Send]:
    """The schedule that these rows fulfil."""
    return [
        Send(
            row.request_id,
            row.scheduled_s if row.planned_s is None else row.planned_s,
            row.lane,
            row.prompt_tokens_planned or 0,
            row.output_tokens_planned or 0,
            tenant=row.tenant,
            deadline_s=row.deadline_s,
        )
        for row in rows
        if row.attempt == 0
    ]


def write_run(
    path: Path,
    rows: Sequence[RequestRecord],
    samples: Sequence[MetricSample] = (),
    sends: Sequence[Send] | None = None,
    **manifest: Any,
) -> RunDir:
    """A finished run of these rows; `sends` None = exactly the rows were planned."""
    run = RunDir.create(path)
    _write_parts(run.requests_dir, REQUESTS_SCHEMA, rows)
    _write_parts(run.metrics_dir, METRICS_SCHEMA, samples)
    plan = sends_of(rows) if sends is None else sends
    columns = [Send._fields.index(name) for name in SCHEDULE_SCHEMA.names]
    write_table(
        to_table([[send[i] for i in columns] for send in plan], SCHEDULE_SCHEMA), run.schedule_path
    )
    run_manifest(rows, **manifest).write(run.manifest_path)
    return run


def run_manifest(rows: Sequence[RequestRecord], **changes: Any) -> Manifest:
    last_s = max((row.finished_s or row.scheduled_s for row in rows), default=0.0)
    values: dict[str, Any] = {
        "loadkit_version": "0.1.0",
        "command": ("loadkit", "replay", "day.parquet", "--target", TARGET, "-o", "runs/a"),
        "created_utc": "2026-11-30T12:00:00+00:00",
        "trace": {
            "source": "day.parquet",
            "format": "loadkit",
            "sha256": "ab" * 32,
            "rows": len(rows),
        },
        "transforms": {"speedup": 10.0},
        "schedule": {"requests": len(rows)},
        "target": {
            "url": TARGET,
            "api": "completions",
            "model": "m",
            "stream": True,
            "engine": "vllm",
        },
        "seed": 1,
        "workers": 1,
        "machine": {"cpus": 2, "python": "3.11"},
        "anchor": {"monotonic_s": 10.0, "unix_s": 1.8e9},
        "limits": {"timeout_s": 60.0, "max_send_lag_s": 0.05},
        "state": "finished",
        "ended_s": last_s,
        "ended_why": "every request of the schedule has ended",
    }
    return Manifest(**{**values, **changes})


def _write_parts(folder: Path, schema: Any, rows: Sequence[Any]) -> None:
    """In several parts, as a run does."""
    writer = PartWriter(folder, schema)
    for start in range(0, len(rows), max(1, len(rows) // 3)):
        writer.add(rows[start : start + max(1, len(rows) // 3)])
        writer.close_part()
