"""At which rate does the share of missed requests cross a level, and how sure is that?

Near the knee a step of a minute sees no busy period or one or two, so the share it measures is mostly
zero and now and then large: neither a step's own p99 nor a binomial interval says anything about the
long run. The number of busy periods is close to Poisson and their sizes close to gamma, which makes the
share compound Poisson-gamma: Tweedie with a power between 1 and 2 (Joergensen 1987; Smyth and Joergensen,
ASTIN Bulletin 32, 2002). With a logistic mean in the log of the rate that gives a posterior for the
crossing on a grid, skewed the way the data are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

POWER = 1.5
"""Variance of a step's share = dispersion x mean^POWER x (1 - mean)."""
_SLOPES = np.linspace(4.0, 60.0, 29)
_SLOPE_PRIOR = (25.0, 15.0)
"""Mean and standard deviation of d logit(share) / d ln(rate): how steep queues are near their knee."""
_DISPERSIONS = np.geomspace(0.01, 10.0, 29)
_DISPERSION_PRIOR = (0.0, 0.8)
"""Of the log. 1: at a mean of 1 % the share of one step varies by three times its mean. Simulated servers
of 8 to 64 slots have 0.8 to 1.9 where the share is 1 %, less where it is large."""
_GRID = 261
_BELOW, _ABOVE = 0.6, 0.4
"""The grid reaches so far beyond the slowest and the fastest step, in ln(rate)."""


@dataclass(frozen=True, slots=True)
class StepShare:
    """What one step says: of `requests` offered at `rate_rps`, `missed` missed."""

    rate_rps: float
    requests: int
    missed: int

    @property
    def share(self) -> float:
        return self.missed / self.requests


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where the share crosses the level: `rate_rps` with its interval, or why there is none."""

    status: Literal["found", "not reached", "over at the lowest load", "nothing measured"]
    rate_rps: float | None = None
    low_rps: float | None = None
    high_rps: float | None = None


def crossing(steps: Sequence[StepShare], level: float = 0.01, confidence: float = 0.95) -> Crossing:
    """The median and the central interval of the posterior; never a rate that was not tested.

    Where it lies beyond every rate that was tested, the interval still tells the side that is known.
    """
    steps = [step for step in steps if step.requests]
    if not steps:
        return Crossing("nothing measured")
    rates_rps = [step.rate_rps for step in steps]
    lowest_rps, highest_rps = min(rates_rps), max(rates_rps)
    low_rps, rate_rps, high_rps = _posterior_rps(
        steps, level, ((1 - confidence) / 2, 0.5, (1 + confidence) / 2)
    )
    if rate_rps > highest_rps:
        return Crossing("not reached", low_rps=min(low_rps, highest_rps))
    if rate_rps < lowest_rps:
        return Crossing("over at the lowest load", high_rps=max(high_rps, lowest_rps))
    return Crossing("found", rate_rps, low_rps, high_rps)


def _posterior_rps(
    steps: Sequence[StepShare], level: float, quantiles: Sequence[float]
) -> list[float]:
    log_rate = np.log([step.rate_rps for step in steps])
    share = np.array([step.share for step in steps])
    grid = np.linspace(log_rate.min() - _BELOW, log_rate.max() + _ABOVE, _GRID)
    distance = log_rate - grid[:, None, None]  # crossing, slope, step
    logit = np.log(level / (1 - level)) + _SLOPES[:, None] * distance
    deviance = _deviance(share, 1 / (1 + np.exp(-logit))).sum(axis=2)
    log_like = -deviance[:, :, None] / (2 * _DISPERSIONS) + _log_prior(int((share > 0).sum()))
    weight = np.exp(log_like - log_like.max()).sum(axis=(1, 2))
    cumulated = weight.cumsum() / weight.sum()
    return [float(np.exp(np.interp(q, cumulated, grid))) for q in quantiles]


def _deviance(share: Floats, mean: Floats) -> Floats:
    """Unit deviance of a Tweedie law of POWER, shrunk towards both ends of 0..1 by the factor 1 - mean."""
    p = POWER
    mean = np.clip(mean, 1e-9, 1 - 1e-9)
    of_share = share ** (2 - p) / ((1 - p) * (2 - p))
    gap = 2 * (of_share - share * mean ** (1 - p) / (1 - p) + mean ** (2 - p) / (2 - p))
    found: Floats = gap / np.maximum(1 - mean, 0.02)
    return found


def _log_prior(positive: int) -> Floats:
    """Of slope and dispersion, with the normalisation of the `positive` shares above 0 (saddlepoint)."""
    slope = -0.5 * ((_SLOPES - _SLOPE_PRIOR[0]) / _SLOPE_PRIOR[1]) ** 2
    log_dispersion = np.log(_DISPERSIONS)
    dispersion = -0.5 * ((log_dispersion - _DISPERSION_PRIOR[0]) / _DISPERSION_PRIOR[1]) ** 2
    prior: Floats = slope[:, None] + dispersion - 0.5 * positive * log_dispersion
    return prior
