"""When things arrive: a day's rate curve, a slow random rate on it, renewal arrivals through both."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, sqrt

import numpy as np
import numpy.typing as npt

from loadkit.trace.raw import Seconds
from loadkit.trace.synth.presets import Chat, LogNormal, Ou

HOURS = 24
WEEK_DAYS = 7
SATURDAY = 5
"""Day 0 of a synthetic trace is a Monday."""

_STEP_S_MAX = 1.0
_STEPS_MIN = 2000
_TAU_S_MIN = 8.0

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Day:
    """Where trace time lies in the day: a whole day of rate curve passes in `day_s`."""

    day_s: float
    start_hour: float

    @property
    def compression(self) -> float:
        """Share of a real day's length, at most 1."""
        return min(1.0, self.day_s / 86400)

    def hours(self, t_s: Seconds) -> Seconds:
        """Hours since midnight of day 0; day 1 starts at 24."""
        return self.start_hour + t_s / self.day_s * HOURS


def grid_s(start_s: float, end_s: float) -> Seconds:
    """Instants on which rates are evaluated, at most 1 s apart."""
    step_s = min(_STEP_S_MAX, end_s / _STEPS_MIN)
    return np.linspace(start_s, end_s, int((end_s - start_s) / step_s) + 2)


def day_curve(chat: Chat, hours: Seconds) -> Seconds:
    """The multiplier of the mean rate, linear between hour centres, weekends lower."""
    before = np.floor(hours - 0.5).astype(np.int64)
    share = hours - 0.5 - before
    return (1 - share) * _hour_weight(chat, before) + share * _hour_weight(chat, before + 1)


def _hour_weight(chat: Chat, hour: Counts) -> Seconds:
    weekend = (hour // HOURS) % WEEK_DAYS >= SATURDAY
    return np.array(chat.hour_weights)[hour % HOURS] * np.where(weekend, chat.weekend_factor, 1.0)


def modulator(law: Ou, grid: Seconds, day: Day, rng: np.random.Generator) -> Seconds:
    """exp(OU - sigma²/2) on the grid: mean 1, stationary from the start.

    Its time constant shrinks with a compressed day, but not below 8 s, where it would be noise.
    """
    tau_s = max(min(law.tau_s, _TAU_S_MIN), law.tau_s * day.compression)
    kept = exp(-(grid[1] - grid[0]) / tau_s)
    noise = rng.normal(0.0, law.sigma, grid.size)
    noise[1:] *= sqrt(1 - kept * kept)
    log_rate = np.fromiter(accumulate(noise.tolist(), lambda x, e: kept * x + e), float, grid.size)
    return np.exp(log_rate - law.sigma**2 / 2)


def integrated(rate: Seconds, grid: Seconds) -> Seconds:
    """Expected arrivals up to each instant of the grid (trapezoids)."""
    steps = (rate[1:] + rate[:-1]) / 2 * np.diff(grid)
    return np.concatenate(([0.0], np.cumsum(steps)))


def renewal_arrivals(
    expected: Seconds, grid: Seconds, cv: float, rng: np.random.Generator
) -> Seconds:
    """Gamma renewal gaps (mean 1, given CV) in operational time, through the inverse integrated rate.

    With CV 1 this is exactly a non-homogeneous Poisson process.
    """
    end = float(expected[-1])
    shape = 1 / cv**2
    reached = np.zeros(0)
    while not reached.size or reached[-1] < end:
        gaps = rng.gamma(shape, 1 / shape, int(end / 4) + 64)
        reached = np.concatenate((reached, np.cumsum(gaps) + (reached[-1] if reached.size else 0)))
    return np.interp(reached[reached < end], expected, grid)


def zipf_shares(count: int, alpha: float) -> list[float]:
    """1/k^alpha, normalised to sum 1."""
    weights = [k**-alpha for k in range(1, count + 1)]
    return [weight / sum(weights) for weight in weights]


def from_quantiles(quantiles: Sequence[int], count: int, rng: np.random.Generator) -> Counts:
    """Draw integers from a quantile table, linear between its points."""
    at = rng.random(count) * (len(quantiles) - 1)
    return np.rint(np.interp(at, np.arange(len(quantiles)), quantiles)).astype(np.int64)


def whole_lognormal(law: LogNormal, count: int, most: int, rng: np.random.Generator) -> Counts:
    """Draw integers of at least 1 and at most `most`."""
    drawn = np.rint(rng.lognormal(law.mu, law.sigma, count))
    return np.clip(drawn, 1, most).astype(np.int64)
