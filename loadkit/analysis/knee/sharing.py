"""What a lane pays for company: its capacity with the other lanes in the background, against alone."""

import math
from dataclasses import dataclass

from loadkit.analysis.knee.findings import Estimate, Findings

_Z = 1.96


@dataclass(frozen=True, slots=True)
class Sharing:
    """1 - capacity with the others / capacity alone, with its 95 % interval; negative = it gained."""

    cost: float
    bounds: tuple[float, float] | None
    """Lower and upper; None where one of the capacities has no interval."""
    utilisation: float | None
    """The lane's capacity with the others / its saturation alone; None where that is unknown."""


def sharing(with_others: Findings, alone: Findings) -> Sharing | None:
    """None where one of the two capacities was not found.

    The two searches are independent, and each interval is taken as normal in the log of the rate: the
    ratio then has the root of the sum of both squared errors.
    """
    shared, free = with_others.capacity, alone.capacity
    if shared.rps is None or free.rps is None:
        return None
    error = math.hypot(_log_error(shared), _log_error(free))
    ratio = shared.rps / free.rps
    full_rps = alone.saturation.rps
    bounds = (1 - ratio * math.exp(min(_Z * error, 700)), 1 - ratio * math.exp(-_Z * error))
    return Sharing(
        cost=1 - ratio,
        bounds=bounds if math.isfinite(error) else None,
        utilisation=None if full_rps is None else shared.rps / full_rps,
    )


def _log_error(found: Estimate) -> float:
    """Infinite for an estimate without an interval."""
    if not (found.low_rps and found.high_rps):
        return math.inf
    return math.log(found.high_rps / found.low_rps) / (2 * _Z)
