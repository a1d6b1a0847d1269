"""What a search has found: three numbers under their own names, each with its interval and its horizon."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from loadkit.analysis.knee.crossing import Crossing, crossing
from loadkit.analysis.knee.steps import Step
from loadkit.model import Slo

Floats = NDArray[np.float64]

TURN_UP = 3.0
"""The turn-up is where p99 of the latency is so many times its baseline. Twice lies on the slope that
batching alone gives; three times does not."""
TURN_UP_SHARE = 0.01
BASELINE_LOAD = 0.3
"""Of the capacity: what runs below it meets no queue."""
BASELINE_STEPS = 4
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Baseline:
    """p99 of the latency at low load, pooled over its steps; never a mean of their p99s."""

    p99_s: float
    low_s: float
    high_s: float
    requests: int
    steps: int

    @property
    def is_vague(self) -> bool:
        """Known to no better than 10 %: an SLO in seconds is then the better yardstick."""
        return self.high_s - self.low_s > 0.2 * self.p99_s


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate with its interval, or the reason why there is none."""

    status: str
    rps: float | None = None
    low_rps: float | None = None
    high_rps: float | None = None
    utilisation: tuple[float, float, float] | None = None
    """Value, low and high, as a share of the saturation throughput."""


@dataclass(frozen=True, slots=True)
class Findings:
    slo: Slo
    baseline: Baseline | None
    capacity: Estimate
    """The rate at which the SLO is just met."""
    turn_up: Estimate
    queue_turn_up: Estimate
    """Where the p99 of queue wait is as long as the baseline's whole first token."""
    saturation: Estimate
    """What the server completes when more is offered than it can do."""


def find(steps: Sequence[Step], slo: Slo) -> Findings:
    """From valid steps alone; the others say nothing of the server."""
    steps = [step for step in steps if step.valid and len(step.latency_s)]
    capacity = crossing([step.missed(slo.threshold_s) for step in steps], 1 - slo.quantile)
    base = baseline(steps, capacity)
    turn_up = queue = Crossing("nothing measured")
    if base is not None:
        turn_up = crossing([s.missed(TURN_UP * base.p99_s) for s in steps], TURN_UP_SHARE)
        queue = crossing([s.queued(base.p99_s) for s in steps], TURN_UP_SHARE)
    full = saturation(steps)
    return Findings(
        slo, base, _estimate(capacity, full), _estimate(turn_up, full), _estimate(queue, full), full
    )


def baseline(steps: Sequence[Step], capacity: Crossing) -> Baseline | None:
    """Pooled over the steps at low load. None without any answer there."""
    low = low_load(steps, capacity)
    values_s = np.sort(np.concatenate([step.latency_s for step in low])) if low else np.empty(0)
    if not len(values_s) or not np.isfinite(p99_s := float(np.quantile(values_s, 0.99))):
        return None
    low_s, high_s = _quantile_interval(values_s, 0.99)
    return Baseline(p99_s, low_s, high_s, len(values_s), len(low))


def low_load(steps: Sequence[Step], capacity: Crossing) -> list[Step]:
    """Steps below BASELINE_LOAD of the capacity or, while that is unknown, of the fastest step."""
    known_rps = capacity.rate_rps or capacity.low_rps or capacity.high_rps
    if known_rps is None:
        known_rps = max((step.plan.rate_rps for step in steps), default=0.0)
    return [step for step in steps if step.plan.rate_rps <= BASELINE_LOAD * known_rps]


def _quantile_interval(values_s: Floats, share: float) -> tuple[float, float]:
    """Order statistics around the quantile, by the normal approximation of the binomial."""
    count = len(values_s)
    half = 1.96 * np.sqrt(count * share * (1 - share))
    ranks = np.clip([count * share - half, count * share + half], 0, count - 1).astype(int)
    return float(values_s[ranks[0]]), float(values_s[ranks[1]])


def saturation(steps: Sequence[Step]) -> Estimate:
    """Mean of the completed rate over the steps whose queue grew without end.

    Student's t over those steps; of a single one, from its own halves nothing is claimed: no interval.
    """
    rates = np.array([step.completed_rps for step in steps if step.overloaded])
    if not len(rates):
        return Estimate("not reached: no step was overloaded for certain")
    mean = float(rates.mean())
    if len(rates) == 1 or not mean:
        return Estimate("found", mean or None)
    half = float(student.ppf((1 + CONFIDENCE) / 2, len(rates) - 1) * rates.std(ddof=1))
    half /= np.sqrt(len(rates))
    return Estimate("found", mean, max(mean - half, float(rates.min()) / 2), mean + half)


def _estimate(found: Crossing, full: Estimate) -> Estimate:
    """The utilisation's bounds: distances in the log of both rates, from different steps, add in squares."""
    estimate = Estimate(found.status, found.rate_rps, found.low_rps, found.high_rps)
    if not (estimate.rps and estimate.low_rps and estimate.high_rps and full.rps):
        return estimate
    value = estimate.rps / full.rps
    below = math.hypot(
        math.log(estimate.rps / estimate.low_rps), math.log((full.high_rps or full.rps) / full.rps)
    )
    above = math.hypot(
        math.log(estimate.high_rps / estimate.rps), math.log(full.rps / (full.low_rps or full.rps))
    )
    return replace(estimate, utilisation=(value, value * math.exp(-below), value * math.exp(above)))
