"""Simulated requests → the numbers of one policy, by lane. Quantiles are elements, never interpolated."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from loadkit.sim.outcomes import Outcomes, State, of_jobs, rows_of
from loadkit.sim.slots import SlotResult
from loadkit.sim.tokens import Served, TokenResult

THRASH_SHARE = 0.01
"""Share of steps with an eviction above which the engine is said to thrash."""

Floats = npt.NDArray[np.float64]


def summarize_jobs(result: SlotResult, late_s: float) -> dict[str, Any]:
    """One element of `policies` in the command's JSON."""
    work, outcomes = result.workload, result.outcomes
    cost_s = result.options.preempt_cost_s * result.preemptions
    lanes = {}
    for lane, rows in work.rows_by_lane.items():
        offered = rows[outcomes.state[rows] != State.NEW]
        if len(offered):
            deadline_s = None if work.deadline_s is None else work.deadline_s[offered]
            lanes[lane] = _lane(rows_of(outcomes, offered), deadline_s, late_s)
    return {
        "policy": result.policy.name,
        "level": "slot",
        "lanes": lanes,
        "preemptions": result.preemptions,
        "preemptions_per_minute": _per_minute(result.preemptions, result.end_s),
        "recovery_share": cost_s / result.busy_slot_s if result.busy_slot_s else None,
        "slot_use": result.slot_use,
        "end_s": result.end_s,
        "warnings": [],
    }


def summarize_served(result: TokenResult, late_s: float) -> dict[str, Any]:
    """The same for the engine model, with what only it knows."""
    by_lane: dict[str, list[Served]] = {}
    for served in result.served:
        by_lane.setdefault(served.send.lane, []).append(served)
    share = result.steps_with_preemption / result.steps if result.steps else None
    thrash = share is not None and share > THRASH_SHARE
    return {
        "policy": result.policy.name,
        "level": "token",
        "lanes": {lane: _served_lane(served, late_s) for lane, served in by_lane.items()},
        "preemptions": result.preemptions,
        "preemptions_per_minute": _per_minute(result.preemptions, result.end_s),
        "recomputed_tokens": sum(s.seq.recomputed_tokens for s in result.served if s.seq),
        "steps": result.steps,
        "steps_with_preemption_share": share,
        "slot_use": result.slot_use,
        "end_s": result.end_s,
        "warnings": [f"thrash: {share:.1%} of the steps evicted somebody"] if thrash else [],
    }


def _served_lane(served: list[Served], late_s: float) -> dict[str, Any]:
    seqs = [one.seq for one in served if one.seq is not None]
    deadline_s = np.array([seq.deadline_s for seq in seqs], float)
    numbers = _lane(of_jobs(seqs), deadline_s, late_s)
    first = [seq.first_token_s - seq.arrival_s for seq in seqs if seq.first_token_s is not None]
    too_long = len(served) - len(seqs)
    if too_long:
        numbers["offered"] += too_long
        numbers["refusals"]["too_long"] = too_long
    return numbers | {
        "ttft_s": quantiles_s(np.sort(np.array(first))),
        "recomputed_tokens": sum(seq.recomputed_tokens for seq in seqs),
    }


def _lane(of: Outcomes, deadline_s: Floats | None, late_s: float) -> dict[str, Any]:
    """`late_share`: of those that started. `deadline_share`: of those offered that have a deadline."""
    wait_s = np.sort((of.start_s - of.arrival_s)[~np.isnan(of.start_s)])
    done = of.state == State.FINISHED
    refusals = Counter(str(why) for why in of.refusal or () if why is not None)
    return {
        "offered": len(of.state),
        "started": len(wait_s),
        "completed": int(done.sum()),
        "rejected": int((of.state == State.REJECTED).sum()),
        "expired": int((of.state == State.EXPIRED).sum()),
        "refusals": dict(refusals),
        "wait_s": quantiles_s(wait_s),
        "late_share": float((wait_s > late_s).mean()) if len(wait_s) else None,
        "latency_s": quantiles_s(np.sort((of.end_s - of.arrival_s)[done])),
        "deadline_share": _deadline_share(of, deadline_s),
        "preemptions": int(of.preemptions.sum()),
    }


def _deadline_share(of: Outcomes, deadline_s: Floats | None) -> float | None:
    if deadline_s is None or np.isnan(deadline_s).all():
        return None
    in_time = (of.state == State.FINISHED) & (of.end_s <= deadline_s)
    return float(in_time.sum() / (~np.isnan(deadline_s)).sum())


def _per_minute(count: int, seconds: float) -> float | None:
    return 60 * count / seconds if seconds else None


def quantiles_s(ordered: Floats) -> dict[str, float | None]:
    """Element min(n - 1, floor(q n)) of the sorted values; nulls where there are none."""
    n = len(ordered)
    if not n:
        return {"p50": None, "p99": None, "max": None}
    at = {"p50": n // 2, "p99": min(n - 1, 99 * n // 100), "max": n - 1}
    return {name: float(ordered[index]) for name, index in at.items()}
