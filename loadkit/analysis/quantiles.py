"""Exact quantiles of observed values. Nothing here interpolates: a reported quantile did happen."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating]

FEW_SAMPLES = 100
"""Below this many values the p99 is the largest of them; from here to 199 the second largest."""


class Quantiles(NamedTuple):
    """`n` values and their order statistics in the unit of the values; all None when `n` is 0."""

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None

    @property
    def few_samples(self) -> bool:
        return self.n < FEW_SAMPLES


NOTHING = Quantiles(0, None, None, None, None, None)


def rank(q: float, n: int) -> int:
    """Zero-based place of the `q` quantile among `n` sorted values: ceil(q·n) - 1, the nearest rank.

    So `quantile(v, q) <= x` exactly when at least the share `q` of the values is at most x, which is
    how an SLO is worded.
    """
    return max(0, math.ceil(q * n - 1e-9) - 1)


def quantile(values: Values, q: float) -> float | None:
    """Nearest-rank quantile; None without values. Values may be infinite, not NaN."""
    if not len(values):
        return None
    place = rank(q, len(values))
    return float(np.partition(values, place)[place])


def quantiles(values: Values) -> Quantiles:
    """Summary of the known (not NaN) values."""
    known = values[~np.isnan(values)]
    n = len(known)
    if not n:
        return NOTHING
    places = [rank(q, n) for q in (0.5, 0.9, 0.99)]
    ordered = np.partition(known, [*places, n - 1])
    p50, p90, p99 = (float(ordered[place]) for place in places)
    return Quantiles(n, float(np.mean(known, dtype=np.float64)), p50, p90, p99, float(ordered[-1]))
