"""Policies: frozen bundles of small pure functions. A new one is one function and one line in POLICIES."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from loadkit.core.sequence import Sequence


class EngineView(NamedTuple):
    """What a decision may look at besides the sequence it is about."""

    now_s: float
    waiting: int
    running: int
    free_slots: int
    free_blocks: int
    start_rate_rps: float | None
    """Sequences started per second lately; None before there were two."""


class Refusal(NamedTuple):
    reason: str
    retry_after_s: float | None
    """When room is to be expected; None = cannot be told yet."""


Order = Callable[[Sequence], tuple[float, ...]]
"""Sort key of the waiting queue: smaller starts sooner. Ties go by arrival."""

Victim = Callable[[list[Sequence]], Sequence]
"""Whose blocks to take when none are free, out of the running sequences in the order they started."""

Admission = Callable[[Sequence, EngineView], Refusal | None]
"""May it join the queue? None = yes."""


def fcfs(seq: Sequence) -> tuple[float, ...]:
    return (seq.number,)


def by_priority(seq: Sequence) -> tuple[float, ...]:
    return (seq.priority, seq.number)


def last_started(running: list[Sequence]) -> Sequence:
    """vLLM's victim under FCFS."""
    return running[-1]


def least_urgent(running: list[Sequence]) -> Sequence:
    """vLLM's victim under priority: the largest (priority, arrival)."""
    return max(running, key=lambda seq: (seq.priority, seq.number))


def always(_seq: Sequence, _engine: EngineView) -> Refusal | None:
    return None


def queue_bound(limit: int) -> Admission:
    """Refuse an arrival that finds `limit` sequences waiting."""
    return partial(_within_bound, limit)


def _within_bound(limit: int, _seq: Sequence, engine: EngineView) -> Refusal | None:
    if engine.waiting < limit:
        return None
    # Little's law: those ahead have started after waiting / start rate.
    rate_rps = engine.start_rate_rps
    return Refusal("queue_full", engine.waiting / rate_rps if rate_rps else None)


@dataclass(frozen=True, slots=True)
class Policy:
    """Who goes first, who is thrown out, who is let in. Functions of their arguments alone."""

    name: str
    order: Order = fcfs
    victim: Victim = last_started
    admit: Admission = always
    drop_expired: bool = False
    """Take what has not started by its deadline out of the queue."""


POLICIES = {
    "fcfs": Policy("fcfs"),
    "priority": Policy("priority", order=by_priority, victim=least_urgent),
}
