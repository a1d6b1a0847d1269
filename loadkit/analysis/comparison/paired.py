"""What changed from A to B over repeated runs, and how sure that is. The unit is the run.

All requests of one run share its luck: a clock speed, a neighbour, a queue that happened to build up.
Tests over requests take that luck for an effect, the more requests the surer, so none is offered here.
Repeats on the same schedule are paired, which takes the schedule's own ups and downs out of the noise.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy  # its `stats` takes a second to load: only where some run is live
from numpy.typing import NDArray

Verdict = Literal["better", "worse", "no difference shown", "inconclusive", "invalid", "not judged"]

MIN_PAIRS = 3
"""With fewer pairs no spread can be told from luck, and every verdict is inconclusive."""
ALPHA = 0.05
LEVEL = 0.95
_EQUIVALENCE_LEVEL = 0.90
"""Two one-sided tests at 5% are one 90% interval inside the margin."""
_MOST_PAIRS = 1000
_NOTHING = 1e-9
"""Values that differ by less differ by rounding."""


class Estimate(NamedTuple):
    """Differences B - A of `pairs` pairs of runs; of ln values where the change is a ratio."""

    pairs: int
    mean: float
    sd: float | None
    """Between pairs; None with a single pair."""
    exact: bool = False
    """Simulated on identical arrivals: nothing is random, so nothing is uncertain."""


def estimate(
    a: Sequence[float], b: Sequence[float], *, relative: bool, exact: bool = False
) -> Estimate:
    """Pair the runs in order. With `relative` all values must be positive."""
    first, second = np.asarray(a, float), np.asarray(b, float)
    d = np.log(second / first) if relative else second - first
    return of_differences(d, exact=exact)


def of_differences(d: NDArray[np.floating], *, exact: bool = False) -> Estimate:
    """The same from ready differences, one per pair; at least one."""
    sd = float(np.std(d, ddof=1)) if len(d) > 1 else None
    return Estimate(len(d), float(np.mean(d)), sd, exact)


def interval(found: Estimate, level: float = LEVEL) -> tuple[float, float] | None:
    """mean ± t(K - 1)·sd/√K; a point when exact; None with a single pair."""
    if found.exact:
        return found.mean, found.mean
    if found.sd is None:
        return None
    t = float(scipy.stats.t.ppf((1 + level) / 2, found.pairs - 1))
    half = t * found.sd / math.sqrt(found.pairs)
    return found.mean - half, found.mean + half


def constant(found: Estimate) -> bool:
    """The same in every pair, so that no luck could have made it differ."""
    return abs(found.mean) < _NOTHING and (found.sd or 0.0) < _NOTHING


def p_value(found: Estimate) -> float:
    """Of a paired two-sided t test against no change; 1 where the pairs are too few to tell."""
    if found.exact or found.sd is None or found.pairs < MIN_PAIRS:
        return 1.0
    if not found.sd:
        return 0.0 if found.mean else 1.0
    t = abs(found.mean) / (found.sd / math.sqrt(found.pairs))
    return float(2 * scipy.stats.t.sf(t, found.pairs - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that the chance of any false alarm among them all is at most `ALPHA` (Holm 1979)."""
    adjusted, running = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = running
    return adjusted


def verdict(
    found: Estimate, adjusted_p: float, margin: float, better: Literal["lower", "higher"]
) -> Verdict:
    """`no difference shown` = whatever difference there is lies within ±`margin` (units of the mean)."""
    improved = (found.mean < 0) == (better == "lower")
    if found.exact:
        same = abs(found.mean) < _NOTHING
        return "no difference shown" if same else _direction(improved=improved)
    inside = interval(found, _EQUIVALENCE_LEVEL)
    if inside is None or found.pairs < MIN_PAIRS:
        return "inconclusive"
    if max(abs(inside[0]), abs(inside[1])) <= margin:
        return "no difference shown"
    return _direction(improved=improved) if adjusted_p < ALPHA else "inconclusive"


def _direction(*, improved: bool) -> Verdict:
    return "better" if improved else "worse"


def pairs_needed(found: Estimate, margin: float) -> int | None:
    """Pairs after which the 95% interval would be about ± `margin` wide; None when nobody can tell."""
    if found.exact or found.sd is None or margin <= 0:
        return None
    for pairs in range(2, _MOST_PAIRS + 1):
        t = float(scipy.stats.t.ppf((1 + LEVEL) / 2, pairs - 1))
        if t * found.sd / math.sqrt(pairs) <= margin:
            return pairs
    return None
