"""The slot pool on virtual time: from one event to the next, exact, at a cost linear in requests.

At one instant arrivals join, jobs that are through leave, then the pool decides. With a tick, all
instants lie on its grid: this is then the program that visits every tick, without the idle ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from loadkit.core import Job, Policy, SlotPool
from loadkit.core.counted import Arrived, Counted, CountedRules, is_plain, run_counted
from loadkit.core.orders import by_priority
from loadkit.sim.outcomes import Floats, Ints, Outcomes, State, of_jobs
from loadkit.sim.workload import Workload, on_grid, snapped

_INF = float("inf")
_SAMPLES = 500
"""Samples of the busy slots from start to end, about."""


@dataclass(frozen=True, slots=True)
class SlotOptions:
    slots: int = 64
    tick_s: float | None = None
    """None = continuous time."""
    preempt_cost_s: float = 0.0
    """Slot time that an evicted job needs on top of its rest."""
    horizon_s: float | None = None
    """What happens at or after this instant is not simulated; None = until everything has ended."""


@dataclass(frozen=True, slots=True)
class SlotResult:
    policy: Policy
    options: SlotOptions
    workload: Workload
    outcomes: Outcomes
    busy_samples: Sequence[tuple[float, float]]
    """Instants, and the integral of busy slots over time until then; the last is at the end."""

    @property
    def busy_slot_s(self) -> float:
        return self.busy_samples[-1][1]

    @property
    def end_s(self) -> float:
        return self.busy_samples[-1][0]

    @property
    def preemptions(self) -> int:
        return int(self.outcomes.preemptions.sum())

    @property
    def slot_use(self) -> float:
        """Busy share of all slots, 0..1, counted after the decisions of each instant."""
        return self.busy_slot_s / (self.options.slots * self.end_s) if self.end_s else 0.0


def simulate_slots(workload: Workload, policy: Policy, options: SlotOptions) -> SlotResult:
    """Raises ValueError where the policy needs what a slot pool does not have."""
    if is_plain(policy) and workload.is_plain and _leaves_a_slot(policy, options):
        return by_counting(workload, policy, options)
    return by_jobs(workload, policy, options)


def _leaves_a_slot(policy: Policy, options: SlotOptions) -> bool:
    return policy.headroom is None or policy.headroom.amount < options.slots


def by_jobs(workload: Workload, policy: Policy, options: SlotOptions) -> SlotResult:
    """Any policy: every job is looked at."""
    tick_s = options.tick_s
    pool = SlotPool(policy, options.slots, options.preempt_cost_s, snapped(tick_s))
    jobs = workload.jobs(tick_s)
    samples = _run(pool, jobs, options.horizon_s or _INF, _sample_s(workload, options))
    return SlotResult(policy, options, workload, of_jobs(jobs), samples)


def _sample_s(workload: Workload, options: SlotOptions) -> float:
    """Time between two samples of the busy slots."""
    last_s = options.horizon_s or float(workload.arrival_s.max(initial=0.0))
    return max(last_s / _SAMPLES, 1e-3)


def _run(
    pool: SlotPool, jobs: list[Job], horizon_s: float, sample_s: float
) -> list[tuple[float, float]]:
    """The busy samples of a SlotResult."""
    slots, total, arrived = pool.slots, len(jobs), 0
    busy_slot_s = now_s = 0.0
    samples, next_sample_s = [], sample_s
    next_arrival_s = jobs[0].arrival_s if jobs else _INF
    while True:
        next_end_s = pool.next_end_s
        next_s = min(next_arrival_s, next_end_s)
        if next_s >= horizon_s or next_s == _INF:
            break
        busy_slot_s += (slots - pool.free) * (next_s - now_s)
        now_s = next_s
        if now_s >= next_sample_s:
            samples.append((now_s, busy_slot_s))
            next_sample_s = now_s + sample_s
        if next_end_s == now_s:
            pool.leave_ended(now_s)
        while next_arrival_s == now_s:
            pool.arrive(jobs[arrived], now_s)
            arrived += 1
            next_arrival_s = jobs[arrived].arrival_s if arrived < total else _INF
        pool.decide(now_s)
    end_s = now_s if horizon_s == _INF else horizon_s
    return [*samples, (end_s, busy_slot_s + (slots - pool.free) * (end_s - now_s))]


def by_counting(workload: Workload, policy: Policy, options: SlotOptions) -> SlotResult:
    """Plain policies over plain work; never another result than `by_jobs`."""
    tick_s = options.tick_s
    arrival_s = on_grid(workload.arrival_s, tick_s)
    by_lane = policy.order is by_priority
    is_batch = workload.is_batch if by_lane else np.zeros(len(workload), bool)
    urgent, batch = np.flatnonzero(~is_batch), np.flatnonzero(is_batch)
    rules = CountedRules(
        slots=options.slots,
        reserve=policy.headroom.amount if policy.headroom else 0,
        preempt=policy.preemption is not None,
        recovery_s=options.preempt_cost_s,
        horizon_s=options.horizon_s or _INF,
        snap=snapped(tick_s),
        sample_s=_sample_s(workload, options),
    )
    service_s = on_grid(workload.service_s, tick_s)
    done = run_counted(
        _arrivals(arrival_s[urgent], arrival_s[batch]),
        service_s[urgent].tolist(),
        service_s[batch].tolist(),
        rules,
    )
    outcomes = _outcomes(done, urgent, batch, arrival_s, rules.horizon_s)
    return SlotResult(policy, options, workload, outcomes, done.busy_samples)


def _arrivals(urgent_s: Floats, batch_s: Floats) -> Iterator[Arrived]:
    instants_s = np.unique(np.concatenate((urgent_s, batch_s)))
    counts = (np.searchsorted(of_s, instants_s, "right").tolist() for of_s in (urgent_s, batch_s))
    return map(Arrived, instants_s.tolist(), *counts)


def _outcomes(
    done: Counted, urgent: Ints, batch: Ints, arrival_s: Floats, horizon_s: float
) -> Outcomes:
    start_s, end_s = np.full((2, len(arrival_s)), np.nan)
    preemptions = np.zeros(len(arrival_s), np.int64)
    for rows, starts_s, ends_s in (
        (urgent, done.urgent_start_s, done.urgent_end_s),
        (batch, done.batch_start_s, done.batch_end_s),
    ):
        start_s[rows[: len(starts_s)]] = starts_s
        end_s[rows[: len(ends_s)]] = ends_s
    preemptions[batch[list(done.evictions)]] = list(done.evictions.values())
    state = np.select(
        [end_s < horizon_s, arrival_s >= horizon_s, np.isfinite(end_s)],
        [State.FINISHED, State.NEW, State.RUNNING],
        State.WAITING,
    )
    end_s[state != State.FINISHED] = np.nan
    return Outcomes(arrival_s, start_s, end_s, state, preemptions)
