"""Does the queue grow without end at this load? From the number waiting, once a second."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Stability = Literal["stable", "marginal", "unstable"]

GROWTH_SHARE = 0.01
"""Of the arrivals: a queue that keeps more than this of what comes is growing."""
GROWTH_T = 1.645
"""Student's t of the growth: one-sided 95 %."""
BACKLOG_S = 2.0
"""Seconds of arrivals that wait at the end."""
LAG_S = 10


@dataclass(frozen=True, slots=True)
class Slope:
    """Requests per second that the queue grows by, and its standard error."""

    per_s: float
    error_per_s: float

    @property
    def t(self) -> float:
        """Infinite for a perfect line, 0 for a flat one."""
        if self.error_per_s:
            return self.per_s / self.error_per_s
        return math.copysign(math.inf, self.per_s) if self.per_s else 0.0


def hac_slope(waiting: Sequence[float], lag: int = LAG_S) -> Slope:
    """Least squares on the second, with an error that allows for autocorrelation up to `lag` seconds.

    Bartlett weights (Newey and West, Econometrica 55, 1987). NaN error below three samples.
    """
    y: Floats = np.asarray(waiting, float)
    count = len(y)
    if count < 3:
        return Slope(0.0, float("nan"))
    t = np.arange(count) - (count - 1) / 2
    spread = float(t @ t)
    slope = float(t @ y) / spread
    scores = t * (y - y.mean() - slope * t)
    variance = float(scores @ scores)
    for distance in range(1, min(lag, count - 1) + 1):
        weight = 1 - distance / (lag + 1)
        variance += 2 * weight * float(scores[distance:] @ scores[:-distance])
    return Slope(slope, float(np.sqrt(max(variance, 0.0))) / spread)


def stability(waiting: Sequence[float], rate_rps: float) -> Stability:
    """`unstable`: grows by more than 1 % of the arrivals, significantly, and much waits at the end.

    `marginal`: some of that. Judged from the number waiting in the measured part of a step.
    """
    slope = hac_slope(waiting)
    signs = (
        slope.per_s > GROWTH_SHARE * rate_rps,
        slope.t > GROWTH_T,
        bool(len(waiting)) and waiting[-1] > BACKLOG_S * rate_rps,
    )
    if all(signs):
        return "unstable"
    return "marginal" if any(signs) else "stable"
