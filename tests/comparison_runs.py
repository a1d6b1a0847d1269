"""Run directories to compare, with known differences."""

from pathlib import Path
from typing import Any

from loadkit.model import MetricSample, RequestRecord, ServerMetric
from loadkit.records import RunDir
from synthetic_run import TARGET, answered, sample, write_run

REQUESTS, JOBS, SLOTS = 100, 20, 10


def rows(factor: float, gap_s: float, source: str = "live", **facts: Any) -> list[RequestRecord]:
    """Interactive request i waits `factor` x (i + 1) ms, batch job i `gap_s` x (i + 1); no client lag.

    So with factor 1 the interactive waits are 1 to 100 ms, and their nearest-rank p99 is 99 ms.
    """
    told: dict[str, Any] = {
        "lag_s": 0.0, "queue_wait_source": "response", "prefill_s": 0.02, "source": source, "tokens": 2,
    }  # fmt: skip
    told = {**told, **facts}
    found = [
        answered(
            f"i{i}", i * 0.1, ttft_sent_s=0.02 + factor * (i + 1) / 1e3,
            queue_wait_s=factor * (i + 1) / 1e3, preemptions=0, **told,
        )
        for i in range(REQUESTS)
    ]  # fmt: skip
    return found + [
        answered(
            f"b{i}", 0.0, lane="batch", ttft_sent_s=gap_s * (i + 1) + 0.02, deadline_s=20.5,
            queue_wait_s=gap_s * (i + 1), preemptions=1, recomputed_tokens=7, **told,
        )
        for i in range(JOBS)
    ]  # fmt: skip


def gauges() -> list[MetricSample]:
    """Half of ten slots in use, by lane, for ten seconds."""
    running = ServerMetric.REQUESTS_RUNNING
    told = [sample(float(t), running, 2.0, lane="interactive") for t in range(11)]
    told += [sample(float(t), running, 3.0, lane="batch") for t in range(11)]
    return told + [sample(float(t), ServerMetric.MAX_NUM_SEQS, SLOTS) for t in range(11)]


def target(policy: str) -> dict[str, Any]:
    capacity = {"max_num_seqs": SLOTS}
    return {"url": TARGET, "engine": "loadkit", "policy": policy, "capacity": capacity}


def run(
    path: Path,
    policy: str,
    factor: float,
    gap_s: float = 1.0,
    source: str = "live",
    **manifest: Any,
) -> RunDir:
    told = {"target": target(policy), **manifest}
    return write_run(path, rows(factor, gap_s, source), **told)


def repeats(folder: Path, policy: str, factors: list[float], gap_s: float = 1.0) -> Path:
    """A folder of live runs of one policy."""
    for k, factor in enumerate(factors):
        created = f"2026-11-30T12:{k:02d}:00+00:00"
        run(folder / str(k), policy, factor, gap_s, created_utc=created)
    return folder
