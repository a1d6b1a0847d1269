"""Simulated jobs → the numbers of one policy, by lane. Quantiles are elements, never interpolated."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loadkit.core import Job, Sequence
from loadkit.sim.slots import SlotResult
from loadkit.sim.tokens import TokenResult

THRASH_SHARE = 0.01
"""Share of steps with an eviction above which the engine is said to thrash."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LaneNumbers:
    offered: int
    started: int
    completed: int
    rejected: int
    expired: int
    wait_s: dict[str, float | None]
    """p50, p99, max of arrival to first start, over what started."""
    late_share: float | None
    """Share of what started that waited longer than the bound."""
    latency_s: dict[str, float | None]
    """p50, p99, max of arrival to end, over what completed."""
    refusals: dict[str, int]
    preemptions: int
    deadline_share: float | None
    """Share of offered requests with a deadline that completed by it."""


def summarize_jobs(result: SlotResult, late_s: float) -> dict[str, Any]:
    """One element of `policies` in the command's JSON."""
    offered = [job for job in result.jobs if job.state != "new"]
    by_lane: dict[str, list[Job]] = {}
    for job in offered:
        by_lane.setdefault(job.lane, []).append(job)
    recovery_s = sum(job.recovery_s for job in offered if job.preemptions)
    return {
        "policy": result.policy.name,
        "level": "slot",
        "lanes": {lane: _as_json(_lane(jobs, late_s)) for lane, jobs in by_lane.items()},
        "preemptions": result.preemptions,
        "preemptions_per_minute": _per_minute(result.preemptions, result.end_s),
        "recovery_share": recovery_s / result.busy_slot_s if result.busy_slot_s else None,
        "slot_use": result.slot_use,
        "end_s": result.end_s,
        "warnings": [],
    }


def summarize_served(result: TokenResult, late_s: float) -> dict[str, Any]:
    """The same for the engine model, with what only it knows."""
    by_lane: dict[str, list[Sequence]] = {}
    for served in result.served:
        by_lane.setdefault(served.send.lane, [])
        if served.seq is not None:
            by_lane[served.send.lane].append(served.seq)
    lanes = {}
    for lane, seqs in by_lane.items():
        too_long = sum(s.seq is None and s.send.lane == lane for s in result.served)
        lanes[lane] = _served_lane(seqs, late_s, too_long)
    share = result.steps_with_preemption / result.steps if result.steps else None
    thrash = share is not None and share > THRASH_SHARE
    return {
        "policy": result.policy.name,
        "level": "token",
        "lanes": lanes,
        "preemptions": result.preemptions,
        "preemptions_per_minute": _per_minute(result.preemptions, result.end_s),
        "recomputed_tokens": sum(s.seq.recomputed_tokens for s in result.served if s.seq),
        "steps": result.steps,
        "steps_with_preemption_share": share,
        "slot_use": result.slot_use,
        "end_s": result.end_s,
        "warnings": [f"thrash: {share:.1%} of the steps evicted somebody"] if thrash else [],
    }


def _served_lane(seqs: list[Sequence], late_s: float, too_long: int) -> dict[str, Any]:
    numbers = _as_json(_lane(seqs, late_s))
    first = [seq.first_token_s - seq.arrival_s for seq in seqs if seq.first_token_s is not None]
    numbers["offered"] += too_long
    if too_long:
        numbers["refusals"]["too_long"] = too_long
    return numbers | {
        "ttft_s": quantiles_s(np.sort(first)),
        "recomputed_tokens": sum(seq.recomputed_tokens for seq in seqs),
    }


def _per_minute(count: int, seconds: float) -> float | None:
    return 60 * count / seconds if seconds else None


def _as_json(lane: LaneNumbers) -> dict[str, Any]:
    return {name: getattr(lane, name) for name in LaneNumbers.__slots__}


def _lane(jobs: list[Job] | list[Sequence], late_s: float) -> LaneNumbers:
    wait_s = np.sort(
        [job.first_scheduled_s - job.arrival_s for job in jobs if job.first_scheduled_s is not None]
    )
    done = [job for job in jobs if job.state == "finished"]
    latency_s = np.sort([job.ended_s - job.arrival_s for job in done if job.ended_s is not None])
    states = Counter([job.state for job in jobs])
    due = [job for job in jobs if job.deadline_s is not None]
    refused = [job for job in jobs if job.state in ("rejected", "expired")]
    return LaneNumbers(
        offered=len(jobs),
        started=len(wait_s),
        completed=len(done),
        rejected=states["rejected"],
        expired=states["expired"],
        wait_s=quantiles_s(wait_s),
        late_share=float((wait_s > late_s).mean()) if len(wait_s) else None,
        latency_s=quantiles_s(latency_s),
        refusals=dict(Counter(str(job.refusal) for job in refused)),
        preemptions=sum(job.preemptions for job in jobs),
        deadline_share=sum(map(_in_time, due)) / len(due) if due else None,
    )


def _in_time(job: Job | Sequence) -> bool:
    if job.state != "finished" or job.ended_s is None or job.deadline_s is None:
        return False
    return job.ended_s <= job.deadline_s


def quantiles_s(ordered: Floats) -> dict[str, float | None]:
    """Element min(n - 1, floor(q n)) of the sorted values; nulls where there are none."""
    n = len(ordered)
    if not n:
        return {"p50": None, "p99": None, "max": None}
    at = {"p50": n // 2, "p99": min(n - 1, 99 * n // 100), "max": n - 1}
    return {name: float(ordered[index]) for name, index in at.items()}
