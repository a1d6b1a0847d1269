"""Who may join the queue: pure rules with a reason and an honest Retry-After for each refusal."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from loadkit.core.orders import Candidate


class EngineView(NamedTuple):
    """What a decision may look at besides the request it is about."""

    now_s: float
    waiting: int
    running: int
    free_slots: int
    free_blocks: int
    start_rate_rps: float | None
    """Started per second lately; None before there were two."""
    lane_waiting: Mapping[str, int] = {}
    queued_work: float = 0.0
    """Guessed work of all that waits: tokens in an engine, seconds of a slot in a slot pool."""
    work_rate: float | None = None
    """Work done per second lately; None before enough has ended."""
    guess: float = 0.0
    """The work guessed for the request itself."""

    @property
    def wait_s(self) -> float | None:
        """Estimated wait of an arrival: queued work over current throughput; 0 where a slot is free."""
        if self.free_slots > self.waiting:
            return 0.0
        return self.queued_work / self.work_rate if self.work_rate else None


class Refusal(NamedTuple):
    reason: str
    retry_after_s: float | None
    """When room is to be expected; None = cannot be told yet."""


Admission = Callable[[Candidate, EngineView], Refusal | None]
"""May it join the queue? None = yes."""


def always(_seq: Candidate, _engine: EngineView) -> Refusal | None:
    return None


def all_of(*rules: Admission) -> Admission:
    """The first refusal counts."""
    told = [rule for rule in rules if rule is not always]
    if len(told) < 2:
        return told[0] if told else always
    return partial(_first_refusal, tuple(told))


def queue_bound(limit: int) -> Admission:
    """Refuse an arrival that finds `limit` waiting."""
    return partial(_within_bound, limit)


def lane_bound(limit: int) -> Admission:
    """Refuse an arrival that finds `limit` of its own lane waiting."""
    return partial(_within_lane_bound, limit)


def wait_bound(limit_s: float) -> Admission:
    """Refuse an arrival whose estimated wait is longer than `limit_s`."""
    return partial(_within_wait, limit_s)


def meets_deadline(seq: Candidate, engine: EngineView) -> Refusal | None:
    """Refuse what cannot start by its deadline, by the estimated wait."""
    if seq.deadline_s is None:
        return None
    if engine.now_s > seq.deadline_s:
        return Refusal("deadline_passed", None)
    wait_s = engine.wait_s
    if wait_s is None or engine.now_s + wait_s <= seq.deadline_s:
        return None
    return Refusal("deadline_unmeetable", wait_s)


def _first_refusal(
    rules: tuple[Admission, ...], seq: Candidate, engine: EngineView
) -> Refusal | None:
    return next((no for rule in rules if (no := rule(seq, engine))), None)


def _within_bound(limit: int, _seq: Candidate, engine: EngineView) -> Refusal | None:
    if engine.waiting < limit:
        return None
    return Refusal("queue_full", _until(engine.waiting, engine))


def _within_lane_bound(limit: int, seq: Candidate, engine: EngineView) -> Refusal | None:
    waiting = engine.lane_waiting.get(seq.lane, 0)
    return None if waiting < limit else Refusal("lane_queue_full", _until(waiting, engine))


def _within_wait(limit_s: float, _seq: Candidate, engine: EngineView) -> Refusal | None:
    wait_s = engine.wait_s
    if wait_s is None or wait_s <= limit_s:
        return None
    return Refusal("wait_too_long", wait_s - limit_s)


def _until(starts: int, engine: EngineView) -> float | None:
    """Seconds until so many have started, at the present rate of starts."""
    rate_rps = engine.start_rate_rps
    return starts / rate_rps if rate_rps else None
