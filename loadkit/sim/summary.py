"""Simulated jobs → the numbers of one policy, by lane. Quantiles are elements, never interpolated."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loadkit.core import Job
from loadkit.sim.slots import SlotResult

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
    minutes = result.end_s / 60
    service_s = result.busy_slot_s or 1.0
    by_lane: dict[str, list[Job]] = {}
    for job in offered:
        by_lane.setdefault(job.lane, []).append(job)
    return {
        "policy": result.policy.name,
        "level": "slot",
        "lanes": {lane: _as_json(_lane(jobs, late_s)) for lane, jobs in by_lane.items()},
        "preemptions": result.preemptions,
        "preemptions_per_minute": result.preemptions / minutes if minutes else None,
        "recovery_share": sum(job.recovery_s for job in offered if job.preemptions) / service_s,
        "slot_use": result.slot_use,
        "end_s": result.end_s,
    }


def _as_json(lane: LaneNumbers) -> dict[str, Any]:
    return {name: getattr(lane, name) for name in LaneNumbers.__slots__}


def _lane(jobs: Sequence[Job], late_s: float) -> LaneNumbers:
    wait_s = np.sort(
        [job.first_started_s - job.arrival_s for job in jobs if job.first_started_s is not None]
    )
    done = [job for job in jobs if job.state == "finished"]
    latency_s = np.sort([job.ended_s - job.arrival_s for job in done if job.ended_s is not None])
    states = Counter(job.state for job in jobs)
    due = [job for job in jobs if job.deadline_s is not None]
    return LaneNumbers(
        offered=len(jobs),
        started=len(wait_s),
        completed=len(done),
        rejected=states["rejected"],
        expired=states["expired"],
        wait_s=quantiles_s(wait_s),
        late_share=float((wait_s > late_s).mean()) if len(wait_s) else None,
        latency_s=quantiles_s(latency_s),
        refusals=dict(
            Counter(str(job.refusal) for job in jobs if job.state in ("rejected", "expired"))
        ),
        preemptions=sum(job.preemptions for job in jobs),
        deadline_share=sum(_in_time(job) for job in due) / len(due) if due else None,
    )


def _in_time(job: Job) -> bool:
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
