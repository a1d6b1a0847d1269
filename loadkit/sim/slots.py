"""The slot pool on virtual time: from one event to the next, exact, at a cost linear in requests.

At one instant arrivals join, jobs that are through leave, then the pool decides. With a tick, all
instants lie on its grid: this is then the program that visits every tick, without the idle ones.
"""

from dataclasses import dataclass

from loadkit.core import Job, Policy, SlotPool
from loadkit.sim.workload import Workload, snapped


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
    jobs: tuple[Job, ...]
    """In arrival order, as the simulation left them. State `new` = due after the horizon."""
    preemptions: int
    busy_slot_s: float
    """Integral of busy slots over time."""
    end_s: float

    @property
    def slot_use(self) -> float:
        """Busy share of all slots, 0..1, counted after the decisions of each instant."""
        return self.busy_slot_s / (self.options.slots * self.end_s) if self.end_s else 0.0


def simulate_slots(workload: Workload, policy: Policy, options: SlotOptions) -> SlotResult:
    """Raises ValueError where the policy needs what a slot pool does not have."""
    tick_s = options.tick_s
    snap = None if tick_s is None else snapped(tick_s)
    pool = SlotPool(policy, options.slots, options.preempt_cost_s, snap)
    jobs = workload.jobs(tick_s)
    busy_slot_s, end_s = _run(pool, jobs, options.horizon_s or float("inf"))
    return SlotResult(policy, options, tuple(jobs), pool.preemptions, busy_slot_s, end_s)


def _run(pool: SlotPool, jobs: list[Job], horizon_s: float) -> tuple[float, float]:
    """Integral of busy slots, and the instant the simulation ended at."""
    slots, total, arrived = pool.slots, len(jobs), 0
    busy_slot_s = now_s = 0.0
    next_arrival_s = jobs[0].arrival_s if jobs else float("inf")
    while True:
        next_end_s = pool.next_end_s
        next_s = next_arrival_s if next_arrival_s <= next_end_s else next_end_s
        if next_s >= horizon_s or next_s == float("inf"):
            break
        busy_slot_s += (slots - pool.free) * (next_s - now_s)
        now_s = next_s
        while next_arrival_s == now_s:
            pool.arrive(jobs[arrived], now_s)
            arrived += 1
            next_arrival_s = jobs[arrived].arrival_s if arrived < total else float("inf")
        if next_end_s == now_s:
            pool.leave_ended(now_s)
        pool.decide(now_s)
    end_s = now_s if horizon_s == float("inf") else horizon_s
    return busy_slot_s + (slots - pool.free) * (end_s - now_s), end_s
