"""Queue orders: pure sort keys of what waits. Smaller starts sooner; ties go by arrival.

Every key is fixed when a candidate joins the queue, so a heap holds it; aging too, because two
candidates age at the same speed (see `aged`).
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

LANE_LEVELS = {
    "interactive": 0.0,
    "near-line": 0.5,
    "nearline": 0.5,
    "batch": 1.0,
    "best-effort": 2.0,
    "best_effort": 2.0,
}
"""Lanes by deadline: seconds, minutes, hours, never. A lane that is not named here is interactive."""


class Candidate(Protocol):
    """What a decision may know about one request: a `Sequence` of the engine or a `Job` of a slot pool."""

    @property
    def number(self) -> int: ...
    @property
    def lane(self) -> str: ...
    @property
    def tenant(self) -> str | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def deadline_s(self) -> float | None: ...
    @property
    def arrival_s(self) -> float: ...
    @property
    def work(self) -> float:
        """Its size as far as it can be known at arrival."""

    @property
    def fair_tag(self) -> float:
        """Start tag, set by `FairClock` where the order is fair."""

    @property
    def started_s(self) -> float:
        """Its latest start."""

    @property
    def expected_left(self) -> float:
        """What it still needs, comparable between candidates at one instant."""

    @property
    def kv_tokens(self) -> float:
        """Tokens of KV cache it holds."""


Key = tuple[float, ...]
Order = Callable[[Candidate], Key]


def lane_level(lane: str) -> float:
    return LANE_LEVELS.get(lane, 0.0)


def is_deferrable(lane: str) -> bool:
    """Batch and best-effort: headroom, floor and eviction concern them."""
    return lane_level(lane) >= 1.0


def fcfs(seq: Candidate) -> Key:
    """First come, first served."""
    return (seq.number,)


def shortest_first(seq: Candidate) -> Key:
    """Shortest job first, by prompt + max_tokens: what it will really generate nobody knows."""
    return (seq.work, seq.number)


def earliest_deadline(seq: Candidate) -> Key:
    """Earliest deadline first (Liu and Layland, 1973). Without a deadline it goes last."""
    return (float("inf") if seq.deadline_s is None else seq.deadline_s, seq.number)


def fair(seq: Candidate) -> Key:
    """Weighted fair across tenants: smallest start tag first (see `FairClock`)."""
    return (seq.fair_tag, seq.number)


def by_priority(seq: Candidate) -> Key:
    """vLLM's priority, lower first; then the more urgent lane; then arrival."""
    return (seq.priority, LANE_LEVELS.get(seq.lane, 0.0), seq.number)


def within_lanes(inner: Order) -> Order:
    """Priority and lane first, `inner` among equals."""
    return by_priority if inner is fcfs else partial(_within_lanes, inner)


def aged(aging_s: float) -> Order:
    """Priority that rises with waiting: after `aging_s` batch is as urgent as fresh interactive work.

    Level - waited / aging_s orders any two candidates as level + arrival / aging_s does, at any time.
    """
    return partial(_aged, aging_s)


def _within_lanes(inner: Order, seq: Candidate) -> Key:
    return (seq.priority, LANE_LEVELS.get(seq.lane, 0.0), *inner(seq))


def _aged(aging_s: float, seq: Candidate) -> Key:
    level = seq.priority + LANE_LEVELS.get(seq.lane, 0.0)
    return (level * aging_s + seq.arrival_s, seq.number)
