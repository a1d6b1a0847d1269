"""The load curve: every step of a search as one point against the load."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadkit.analysis.knee.findings import Findings
from loadkit.analysis.knee.steps import Step

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """None where the quantile lies among requests without an answer, or nothing is told."""

    p50_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class LoadPoint:
    step: Step
    utilisation: float | None
    """Offered / saturation throughput; None where the saturation was not reached."""
    requests: int
    missed: int
    goodput_rps: float
    """Requests of the SLO's lane that met it, per second of measured time."""
    latency: Spread
    tpot: Spread
    queue_wait: Spread
    preemptions_per_1000: float | None


def load_curve(steps: Sequence[Step], findings: Findings) -> list[LoadPoint]:
    """By rate, the slowest first."""
    full_rps = findings.saturation.rps
    threshold_s = findings.slo.threshold_s
    return [
        _point(step, full_rps, threshold_s)
        for step in sorted(steps, key=lambda step: step.plan.rate_rps)
    ]


def _point(step: Step, full_rps: float | None, threshold_s: float) -> LoadPoint:
    share = step.missed(threshold_s)
    told = step.preemptions is not None and share.requests
    return LoadPoint(
        step=step,
        utilisation=None if full_rps is None else step.plan.rate_rps / full_rps,
        requests=share.requests,
        missed=share.missed,
        goodput_rps=(share.requests - share.missed) / step.plan.measure_s,
        latency=spread(step.latency_s),
        tpot=spread(step.tpot_s),
        queue_wait=spread(step.queue_wait_s),
        preemptions_per_1000=1000 * (step.preemptions or 0) / share.requests if told else None,
    )


def spread(values_s: Floats) -> Spread:
    return Spread(_quantile(values_s, 0.5), _quantile(values_s, 0.99))


def _quantile(values_s: Floats, share: float) -> float | None:
    if not len(values_s):
        return None
    value_s = float(np.quantile(values_s, share, method="higher"))
    return value_s if np.isfinite(value_s) else None
