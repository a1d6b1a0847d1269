"""What the interactive lane gains is paid by the batch lane: where each arm stands, and what to choose."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadkit.analysis.comparison.measures import MEASURES, Measure
from loadkit.analysis.comparison.paired import estimate, interval
from loadkit.analysis.comparison.runs import Arm
from loadkit.analysis.slo import SloResult
from loadkit.model import BATCH, INTERACTIVE, Slo

_TAILS = (("queue_wait", 0.99), ("ttft", 0.99), ("e2e", 0.99))
_WORK = ("completed_per_h", None)
_BY_KEY = {measure.key: measure for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class Standing:
    """One arm in the trade-off; values over its runs."""

    label: str
    tail_s: float
    work_per_h: float
    runs: tuple[tuple[float, float], ...]
    """(tail_s, work_per_h) of each run."""
    on_front: bool
    """No other arm has both a shorter tail and more batch work done."""


@dataclass(frozen=True, slots=True)
class TradeOff:
    tail_lane: str
    work_lane: str
    tail: Measure
    standings: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class SloMark:
    """One SLO in all runs of one arm."""

    label: str
    results: tuple[SloResult, ...]

    @property
    def slo(self) -> Slo:
        return self.results[0].slo

    @property
    def met(self) -> bool | None:
        """In every run; None when some run cannot tell and none failed."""
        found = [result.met for result in self.results]
        return False if False in found else None if None in found else True


@dataclass(frozen=True, slots=True)
class Choice:
    """Among the arms that meet every SLO, the one with the most batch work done."""

    label: str
    tied: tuple[str, ...]
    """Other arms that meet them too and whose batch work cannot be told from its own."""
    cost_share: float | None
    """Batch work forgone against the arm that does most, SLOs or not."""
    cost_against: str | None


def split_lanes(lanes: Sequence[str]) -> tuple[str | None, str | None]:
    """(the lane that waits badly, the lane that can wait); None where there is no such lane."""
    tail = INTERACTIVE if INTERACTIVE in lanes else next((n for n in lanes if n != BATCH), None)
    others = [name for name in lanes if name != tail]
    work = BATCH if BATCH in others else others[-1] if others else None
    return tail, work


def trade_off(arms: Sequence[Arm], lanes: Sequence[str]) -> TradeOff | None:
    """None with fewer than two lanes, or where no tail is known to all valid arms."""
    tail_lane, work_lane = split_lanes(lanes)
    valid = [arm for arm in arms if not arm.reasons]
    if tail_lane is None or work_lane is None or not valid:
        return None
    for key in _TAILS:
        points = [_points(arm, (tail_lane, key), (work_lane, _WORK)) for arm in valid]
        if all(points):
            return TradeOff(tail_lane, work_lane, _BY_KEY[key], _standings(valid, points))
    return None


def _points(arm: Arm, tail: tuple, work: tuple) -> list[tuple[float, float]]:  # type: ignore[type-arg]
    pairs = zip(arm.values_of(tail), arm.values_of(work), strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def _standings(
    arms: Sequence[Arm], points: Sequence[list[tuple[float, float]]]
) -> tuple[Standing, ...]:
    means = [tuple(float(value) for value in np.mean(own, axis=0)) for own in points]
    return tuple(
        Standing(arm.label, mean[0], mean[1], tuple(own), _undominated(mean, means))
        for arm, own, mean in zip(arms, points, means, strict=True)
    )


def _undominated(one: tuple[float, ...], all_: Sequence[tuple[float, ...]]) -> bool:
    return not any(
        tail_s <= one[0] and work >= one[1] and (tail_s, work) != one for tail_s, work in all_
    )


def slo_marks(arms: Sequence[Arm], slos: Sequence[Slo]) -> tuple[SloMark, ...]:
    """Of every valid arm, in the order of the SLOs."""
    return tuple(
        SloMark(arm.label, tuple(run.slos[place] for run in arm.runs))
        for place in range(len(slos))
        for arm in arms
        if not arm.reasons
    )


def meeting(arms: Sequence[Arm], marks: Sequence[SloMark]) -> list[Arm]:
    """Valid arms that meet every SLO; none when there is no SLO."""
    return [
        arm
        for arm in arms
        if (own := [mark for mark in marks if mark.label == arm.label])
        and all(mark.met for mark in own)
    ]


def choose(arms: Sequence[Arm], marks: Sequence[SloMark], lanes: Sequence[str]) -> Choice | None:
    """None when no arm meets the SLOs, or none was given."""
    good, work_lane = meeting(arms, marks), split_lanes(lanes)[1]
    if not good:
        return None
    place = work_lane, _WORK
    if work_lane is None or any(arm.mean(place) is None for arm in arms if not arm.reasons):
        return Choice(good[0].label, tuple(arm.label for arm in good[1:]), None, None)

    def work(arm: Arm) -> float:
        return arm.mean(place) or 0.0

    best = max(good, key=work)
    most = max((arm for arm in arms if not arm.reasons), key=work)
    tied = tuple(a.label for a in good if a is not best and not _told_apart(best, a, place))
    cost = 1 - work(best) / work(most) if work(most) else None
    return Choice(best.label, tied, cost, most.label)


def _told_apart(a: Arm, b: Arm, place: tuple) -> bool:  # type: ignore[type-arg]
    pairs = [
        (x, y) for x, y in zip(a.values_of(place), b.values_of(place), strict=False) if x and y
    ]
    if not pairs:
        return True
    first, second = zip(*pairs, strict=True)
    found = estimate(first, second, relative=True, exact=a.simulated and b.simulated)
    ends = interval(found)
    return ends is not None and not ends[0] <= 0.0 <= ends[1]
