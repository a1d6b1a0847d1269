"""How many replicas a load needs, from what one replica was found to take. Uncertainty is carried along.

Replicas behind a fair balancer each get an equal share of the requests: what one was measured to take, each
takes. (An unfair balancer wastes capacity; shared prefix caches may add some. Neither is in these numbers.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadkit.analysis.knee.findings import Findings
from loadkit.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Need:
    """Replicas for `rate_rps` in all."""

    rate_rps: float
    fewest: int
    """If one replica takes as much as the upper bound of its capacity."""
    likely: int
    safe: int
    """If it takes no more than the lower bound."""
    headroom: float
    """Of `safe` replicas: share of their capacity (point estimate) that is left, 0..1."""
    utilisation: float | None
    """Of `safe` replicas: share of the saturation throughput in use; None where that is unknown."""


def need(findings: Findings, rate_rps: float) -> Need:
    """Raises InputError where the search did not find the capacity."""
    capacity, full = findings.capacity, findings.saturation
    if capacity.rps is None or capacity.low_rps is None or capacity.high_rps is None:
        raise InputError(
            f"the capacity of one replica is not known: {capacity.status}",
            hint="search with other rates: loadkit knee … --start",
        )
    bounds_rps = (capacity.high_rps, capacity.rps, capacity.low_rps)
    fewest, likely, safe = (max(1, math.ceil(rate_rps / each - 1e-9)) for each in bounds_rps)
    return Need(
        rate_rps=rate_rps,
        fewest=fewest,
        likely=likely,
        safe=safe,
        headroom=1 - rate_rps / (safe * capacity.rps),
        utilisation=None if full.rps is None else rate_rps / (safe * full.rps),
    )


@dataclass(frozen=True, slots=True)
class DayNeed:
    """A recorded day: its busiest moment, and what each hour needs by itself."""

    peak: Need
    peak_at_s: float
    window_s: float
    """Rates are means over so long: as long as a step of the search measured."""
    hours: tuple[Need, ...]
    replica_hours: int
    """Of the safe numbers, hour by hour; `peak.safe` times the hours if nobody scales."""


def day_need(findings: Findings, arrival_s: Sequence[float], window_s: float) -> DayNeed:
    """From arrivals in seconds from the start, sorted. Raises InputError as `need`, or without arrivals."""
    at_s = np.asarray(arrival_s, float)
    if not len(at_s):
        raise InputError("the trace holds no requests to plan for")
    counts = np.searchsorted(at_s, at_s + window_s) - np.arange(len(at_s))
    busiest = int(counts.argmax())
    hours = [need(findings, rate) for rate in _hourly_peaks_rps(at_s, counts, window_s)]
    return DayNeed(
        peak=need(findings, float(counts[busiest]) / window_s),
        peak_at_s=float(at_s[busiest]),
        window_s=window_s,
        hours=tuple(hours),
        replica_hours=sum(hour.safe for hour in hours),
    )


def _hourly_peaks_rps(at_s: Floats, counts: NDArray[np.int64], window_s: float) -> list[float]:
    hour = (at_s // 3600).astype(int)
    peaks = np.zeros(int(hour.max()) + 1)
    np.maximum.at(peaks, hour, counts / window_s)
    found: list[float] = peaks.tolist()
    return found
