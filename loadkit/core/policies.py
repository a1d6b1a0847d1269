"""Policies: frozen bundles of small pure functions, one object for the simulator and the emulator.

A new order is one function in `orders` and one line in ORDERS; a new word of the policy language is
one function and one line in `words.WORDS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from loadkit.core.admission import Admission, EngineView, Refusal, always, queue_bound
from loadkit.core.orders import (
    Order,
    by_priority,
    earliest_deadline,
    fair,
    fcfs,
    shortest_first,
    within_lanes,
)
from loadkit.core.sequence import Sequence
from loadkit.core.victims import Preemption

__all__ = [
    "ORDERS",
    "POLICIES",
    "Admission",
    "CoDel",
    "EngineView",
    "Headroom",
    "LaneRule",
    "Order",
    "Policy",
    "Refusal",
    "Victim",
    "always",
    "by_priority",
    "fcfs",
    "last_started",
    "least_urgent",
    "queue_bound",
]

Victim = Callable[[list[Sequence]], Sequence]
"""Whose blocks to take when none are free, out of the running sequences in the order they started."""


def last_started(running: list[Sequence]) -> Sequence:
    """vLLM's victim under FCFS."""
    return running[-1]


def least_urgent(running: list[Sequence]) -> Sequence:
    """vLLM's victim under priority: the largest (priority, lane, arrival)."""
    return max(running, key=by_priority)


class Headroom(NamedTuple):
    """Batch starts only while at least so much stays free."""

    amount: int
    unit: Literal["slots", "blocks", "tokens"] = "slots"


class CoDel(NamedTuple):
    """Queue time-out that shrinks under standing load.

    After B. Maurer, "Fail at scale", ACM Queue 13(8), 2015: an arrival may wait `interval_s`, or only
    `target_s` when the queue has not been empty during the last `interval_s`.
    """

    interval_s: float
    target_s: float

    def timeout_s(self, now_s: float, last_empty_s: float) -> float:
        standing = last_empty_s < now_s - self.interval_s
        return self.target_s if standing else self.interval_s


@dataclass(frozen=True, slots=True)
class LaneRule:
    """What one lane does differently."""

    order: Order | None = None
    admit: Admission = always
    lifo_after_s: float | None = None
    codel: CoDel | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Who goes first, who is thrown out, who is let in. Functions of their arguments alone."""

    name: str
    order: Order = fcfs
    victim: Victim = last_started
    admit: Admission = always
    drop_expired: bool = False
    """Take what has not started by its deadline out of the queue."""
    headroom: Headroom | None = None
    floor: int = 0
    """Batch goes first while it holds fewer slots than this; eviction leaves it so many."""
    preemption: Preemption | None = None
    lifo_after_s: float | None = None
    """Adaptive LIFO ("Fail at scale", see CoDel): newest first while the oldest has waited longer."""
    codel: CoDel | None = None
    weights: Mapping[str, float] | None = None
    """Weighted fair order: tenant → weight; others weigh 1. None = no fair order."""
    estimates: bool = False
    """Its admission looks at the estimated wait, which costs some bookkeeping."""
    static: bool = False
    """Request-level batching as before Orca: nobody starts until everybody has finished."""
    favour: Literal["decode", "prefill"] = "decode"
    """`prefill`: new prompts are computed before running sequences go on."""
    lanes: Mapping[str, LaneRule] = field(default_factory=dict)


ORDERS: dict[str, Order] = {
    "fifo": fcfs,
    "fcfs": fcfs,
    "sjf": shortest_first,
    "edf": earliest_deadline,
    "fair": fair,
}
"""Orders by one key over all lanes; with `priority` they hold among equals."""

POLICIES = {
    "fcfs": Policy("fcfs"),
    "fifo": Policy("fifo"),
    "priority": Policy("priority", order=by_priority, victim=least_urgent),
    "sjf": Policy("sjf", order=shortest_first),
    "edf": Policy("edf", order=earliest_deadline),
    "fair": Policy("fair", order=fair, weights={}),
    "preempt": Policy(
        "preempt", order=within_lanes(fcfs), victim=least_urgent, preemption=Preemption()
    ),
}
"""Policies of one word; `parse_policy` knows all of them and everything that can be built."""
