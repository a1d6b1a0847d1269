"""What the interactive lane gains is paid by the batch lane: where each arm stands, and what to choose."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadkit.analysis.comparison.measures import MEASURES, Measure
from loadkit.analysis.comparison.paired import MIN_PAIRS, estimate, interval
from loadkit.analysis.comparison.runs import Arm, Place
from loadkit.analysis.comparison.work import why_other_work
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
    """By the means, no other arm is as good in both tail and batch work, and better in one. Only among
    those that were given the work of the first."""
    beaten_by: str | None
    """One that is, where the runs tell the two apart in at least one of both."""


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


def trade_off(
    arms: Sequence[Arm], lanes: Sequence[str], slos: Sequence[Slo] = ()
) -> TradeOff | None:
    """None with fewer than two lanes, or where no tail is known to all valid arms.

    The tail is the one that an SLO of the lane speaks of, otherwise the first known of `_TAILS`.
    """
    tail_lane, work_lane = split_lanes(lanes)
    valid = [arm for arm in arms if not arm.reasons]
    if tail_lane is None or work_lane is None or not valid:
        return None
    asked = [(s.metric, s.quantile) for s in slos if s.lane == tail_lane]
    for key in (*(k for k in asked if k in _BY_KEY), *_TAILS):
        places = (tail_lane, key), (work_lane, _WORK)
        if all(_points(arm, *places) for arm in valid):
            return TradeOff(tail_lane, work_lane, _BY_KEY[key], _standings(valid, *places))
    return None


def _points(arm: Arm, tail: Place, work: Place) -> list[tuple[float, float]]:
    pairs = zip(arm.values_of(tail), arm.values_of(work), strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def _standings(arms: Sequence[Arm], tail: Place, work: Place) -> tuple[Standing, ...]:
    means = {arm.label: (arm.mean(tail) or 0.0, arm.mean(work) or 0.0) for arm in arms}
    found = []
    for arm in arms:
        mean = means[arm.label]
        same = [other for other in arms if _same_work(arm, other)]
        ahead = [other for other in same if _ahead(means[other.label], mean)]
        proved = [other for other in ahead if any(_told_apart(arm, other, p) for p in (tail, work))]
        beater = max((o.label for o in proved), key=lambda label: means[label][1], default=None)
        runs = tuple(_points(arm, tail, work))
        found.append(Standing(arm.label, *mean, runs, not ahead and arms[0] in same, beater))
    return tuple(found)


def _same_work(a: Arm, b: Arm) -> bool:
    return not why_other_work(a.manifest, b.manifest)


def _ahead(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[0] and one[1] >= other[1] and one != other


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
    """None when no arm meets the SLOs, or none was given.

    Batch work is compared among those that were given the work of the first valid arm.
    """
    good, work_lane = meeting(arms, marks), split_lanes(lanes)[1]
    if not good:
        return None
    place = work_lane, _WORK
    valid = [arm for arm in arms if not arm.reasons]
    alike = [arm for arm in valid if _same_work(valid[0], arm)]
    candidates = [arm for arm in good if arm in alike]
    if work_lane is None or not candidates or any(arm.mean(place) is None for arm in alike):
        return Choice(good[0].label, tuple(arm.label for arm in good[1:]), None, None)

    def work(arm: Arm) -> float:
        return arm.mean(place) or 0.0

    best, most = max(candidates, key=work), max(alike, key=work)
    tied = tuple(a.label for a in candidates if a is not best and not _told_apart(best, a, place))
    cost = 1 - work(best) / work(most) if work(most) else None
    return Choice(best.label, tied, cost, most.label)


def _told_apart(a: Arm, b: Arm, place: Place) -> bool:
    """The 95% interval of the change leaves out 0, over enough pairs to have one that means something."""
    pairs = [
        (x, y)
        for x, y in zip(a.values_of(place), b.values_of(place), strict=False)
        if x is not None and y is not None
    ]
    exact = a.simulated and b.simulated
    if len(pairs) < (1 if exact else MIN_PAIRS):
        return False
    first, second = zip(*pairs, strict=True)
    ends = interval(estimate(first, second, relative=min(*first, *second) > 0, exact=exact))
    return ends is not None and not ends[0] <= 0.0 <= ends[1]
