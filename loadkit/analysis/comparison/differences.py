"""What changed from the first arm to another, number by number, each with its interval and verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from loadkit.analysis.comparison.measures import WHOLE_RUN, Measure
from loadkit.analysis.comparison.paired import (
    ALPHA,
    MIN_PAIRS,
    Estimate,
    Verdict,
    constant,
    estimate,
    holm,
    interval,
    of_differences,
    p_value,
    pairs_needed,
    verdict,
)
from loadkit.analysis.comparison.runs import COVERED_POINTS, Arm, Measured, Place
from loadkit.analysis.comparison.work import why_other_work

OTHER_WORK = "other work"
"""How the reason of a number begins that counts what the two runs were not both given."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`change` with its 95% interval: b / a - 1 when `relative`, otherwise b - a in the measure's unit."""

    arm: str
    lane: str | None
    """None = the whole run."""
    measure: Measure
    a: float | None
    """Of the first arm: the mean over its runs; both None where they may not be compared."""
    b: float | None
    change: float | None
    low: float | None
    high: float | None
    relative: bool
    verdict: Verdict
    pairs: int
    pairs_needed: int | None
    """For a 95% interval as narrow as the margin; None where that cannot be told."""
    why: str
    """In plain words."""


@dataclass(frozen=True, slots=True)
class Flattered:
    """The arm that looks better than it is, because its number leaves out more of the slow requests."""

    is_first: bool
    why: str

    def forbids(self, said: Verdict) -> bool:
        """Against such an arm a number still counts; for it, or for a draw, it does not."""
        return said in {"no difference shown", "worse" if self.is_first else "better"}


@dataclass(frozen=True, slots=True)
class _Row:
    """A difference before the verdict, which needs all rows of the arm."""

    shown: Difference
    found: Estimate | None
    margin: float = 0.0
    flattered: Flattered | None = None
    other_work: str = ""


def differences(
    first: Arm, other: Arm, lanes: Sequence[str], measures: Sequence[Measure], *, whole: bool
) -> list[Difference]:
    """Every measure that at least one of the two arms knows, lane by lane, then the whole run."""
    families: list[tuple[str | None, Sequence[Measure]]] = [(lane, measures) for lane in lanes]
    families += [(None, WHOLE_RUN)] if whole else []
    return [
        found
        for lane, family in families
        for found in _family([_row(first, other, lane, each) for each in family])
    ]


def _family(rows: Sequence[_Row | None]) -> list[Difference]:
    """Verdicts of one lane, with a false alarm in at most 5% of the lanes in which nothing differs.

    A number that is the same in every pair cannot raise one, so it takes no part (Tarone 1990).
    """
    known = [row for row in rows if row is not None]
    tested = [row for row in known if row.found and not constant(row.found) and not row.other_work]
    adjusted = holm([p_value(row.found) for row in tested if row.found])
    p_of = {id(row): p for row, p in zip(tested, adjusted, strict=True)}
    return [_judged(row, p_of.get(id(row), 1.0)) for row in known]


def _row(first: Arm, other: Arm, lane: str | None, measure: Measure) -> _Row | None:
    blank = Difference(
        other.label, lane, measure, None, None, None, None, None,
        relative=False, verdict="invalid", pairs=0, pairs_needed=None, why="",
    )  # fmt: skip
    reason = _why_invalid(first, other, lane, measure)
    other_work = why_other_work(first.manifest, other.manifest, lane)
    if measure.of is None and lane is not None:  # of other work, the same request is not the same
        return None if other_work else _typical_row(blank, first, other, reason)
    place = lane, measure.key
    a, b = first.values_of(place), other.values_of(place)
    if all(value is None for value in (*a, *b)):
        return None
    if reason:
        return _Row(replace(blank, why=reason), None)
    pairs = [(x, y) for x, y in zip(a, b, strict=False) if x is not None and y is not None]
    if not pairs and measure.better == "neither":
        return None
    if not pairs:
        silent = first.label if all(value is None for value in a) else other.label
        return _Row(replace(blank, why=f"not known in {silent}"), None)
    before, after = [x for x, _ in pairs], [y for _, y in pairs]
    relative = measure.unit != "share" and min(*before, *after) > 0
    found = estimate(before, after, relative=relative, exact=first.simulated and other.simulated)
    margin = measure.margin if relative or measure.unit == "share" else _scaled(measure, before)
    flattered = _flattered(first, other, place)
    shown = _shown(blank, before, after, found, relative=relative)
    return _Row(shown, found, margin, flattered, other_work)


def _flattered(first: Arm, other: Arm, place: Place) -> Flattered | None:
    ours, theirs = first.covered(place), other.covered(place)
    if ours is None or theirs is None or abs(ours - theirs) <= COVERED_POINTS:
        return None
    less, more = (first, other) if ours < theirs else (other, first)
    shares = sorted((ours, theirs))
    return Flattered(
        less is first,
        f"speaks of {shares[0]:.1%} of the requests in {less.label} and of {shares[1]:.1%} in "
        f"{more.label}: what is left out is the slow part",
    )


def _why_invalid(first: Arm, other: Arm, lane: str | None, measure: Measure) -> str:
    for arm in (first, other):
        if arm.reasons:
            return f"{arm.label} is invalid: {arm.reasons[0]}"
        if lane is not None and any(lane not in run.lanes for run in arm.runs):
            return f"lane {lane} is missing in {arm.label}"
    if measure.metric in ("queue_wait", "late_share") and lane is not None:
        return _unlike_waits(first, other, lane)
    return ""


def _unlike_waits(first: Arm, other: Arm, lane: str) -> str:
    """An estimate and a measurement differ by more than the server."""
    sources = {run.wait_sources.get(lane) for run in (*first.runs, *other.runs)} - {None}
    if "estimated" in sources and len(sources) > 1:
        return f"queue waits of unlike sources: {', '.join(sorted(map(str, sources)))}"
    return ""


def _scaled(measure: Measure, before: Sequence[float]) -> float:
    """A relative margin, where some value is 0, as a number in the measure's own unit."""
    return measure.margin * float(np.mean(before))


def _typical_row(blank: Difference, first: Arm, other: Arm, reason: str) -> _Row | None:
    """The mean change of the same request, run pair by run pair."""
    assert blank.lane is not None
    metric, lane = blank.measure.metric, blank.lane
    if reason:
        return _Row(replace(blank, why=reason), None) if _known(first, lane, metric) else None
    pairs = [
        both
        for x, y in zip(first.runs, other.runs, strict=False)
        if len(both := _same_requests(x, y, lane, metric))
    ]
    if not pairs:
        return None
    relative = all(bool((both > 0).all(axis=None)) for both in pairs)
    d = np.array([_mean_change(both, relative=relative) for both in pairs])
    before, after = ([float(both[side].mean()) for both in pairs] for side in ("a", "b"))
    found = of_differences(d, exact=first.simulated and other.simulated)
    margin = blank.measure.margin if relative else _scaled(blank.measure, before)
    return _Row(_shown(blank, before, after, found, relative=relative), found, margin)


def _known(arm: Arm, lane: str, metric: str) -> bool:
    return any(
        lane in run.requests and run.requests[lane][metric].notna().any() for run in arm.runs
    )


def _same_requests(a: Measured, b: Measured, lane: str, metric: str) -> pd.DataFrame:
    """Requests that have the metric in both runs."""
    pair = {"a": a.requests[lane][metric], "b": b.requests[lane][metric]}
    return pd.concat(pair, axis=1, join="inner").dropna()


def _mean_change(both: pd.DataFrame, *, relative: bool) -> float:
    a, b = (both[side].to_numpy(float) for side in ("a", "b"))
    return float(np.mean(np.log(b / a) if relative else b - a))


def _shown(
    blank: Difference,
    before: Sequence[float],
    after: Sequence[float],
    found: Estimate,
    *,
    relative: bool,
) -> Difference:
    ends = interval(found)
    low, high = (None, None) if ends is None else (_as_change(end, relative) for end in ends)
    return replace(
        blank,
        a=float(np.mean(before)),
        b=float(np.mean(after)),
        change=_as_change(found.mean, relative),
        low=low,
        high=high,
        relative=relative,
        pairs=found.pairs,
    )


def _as_change(value: float, relative: bool) -> float:
    """ln ratio → b / a - 1, without an overflow for a ratio nobody can mean."""
    return math.expm1(min(value, 700.0)) if relative else value


def _judged(row: _Row, adjusted_p: float) -> Difference:
    found, better = row.found, row.shown.measure.better
    if found is None:
        return row.shown
    if better == "neither":
        return replace(row.shown, verdict="not judged", why="neither more nor less is better")
    if row.other_work:
        return replace(row.shown, verdict="not judged", why=f"{OTHER_WORK}: {row.other_work}")
    margin = math.log1p(row.margin) if row.shown.relative else row.margin
    said = verdict(found, adjusted_p, margin, better)
    if row.flattered and row.flattered.forbids(said):
        return replace(row.shown, verdict="not judged", why=row.flattered.why)
    needed = pairs_needed(found, margin)
    return replace(row.shown, verdict=said, pairs_needed=needed, why=_why(said, found, row, needed))


def _why(said: Verdict, found: Estimate, row: _Row, needed: int | None) -> str:
    if found.exact:
        return "simulated on identical arrivals: exact for this trace"
    if found.pairs < MIN_PAIRS:
        return f"{found.pairs} pair{'s' * (found.pairs > 1)} of runs: {MIN_PAIRS} or more can tell"
    if said == "inconclusive" and p_value(found) < ALPHA:
        return "shown by itself, not among all numbers of the lane: more pairs, or ask for --metric alone"
    if said == "inconclusive":
        more = f", about {needed} pairs would do" if needed and needed > found.pairs else ""
        return f"{found.pairs} pairs do not settle it{more}"
    if said == "no difference shown":
        return f"less than {_margin(row)}, by {found.pairs} pairs"
    return f"{found.pairs} pairs, holds among all measures of the lane (Holm)"


def _margin(row: _Row) -> str:
    measure = row.shown.measure
    points = " point" if measure.unit == "share" else "%"
    return f"{measure.margin * 100:g}{points}"
