"""Numbers about arrival times, each from sorted seconds and nothing else."""

from dataclasses import dataclass

import numpy as np

from loadkit.trace.raw import Seconds

SILENCE_S = 60.0
SILENCE_MEAN_GAPS = 50.0

_QUANTA_S = (3600, 1800, 900, 600, 300, 120, 60, 30, 20, 15, 10, 6, 5, 4, 3, 2, 1)
_FINE_QUANTA_S = (0.5, 0.25, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
_ON_GRID_SHARE = 0.98
_ON_GRID_TOLERANCE_S = 0.002
_ROWS_TO_JUDGE = 20


@dataclass(frozen=True, slots=True)
class Silences:
    longer_than_s: float
    count: int
    shortest_s: float | None
    longest_s: float | None


def dispersion(arrival_s: Seconds, bin_s: float) -> float | None:
    """Variance / mean of the counts in whole bins of `bin_s`; None below two bins. Poisson: 1."""
    since_s = arrival_s - arrival_s[0]
    bins = int(since_s[-1] / bin_s)
    if bins < 2:
        return None
    index = (since_s / bin_s).astype(np.int64)
    counts = np.bincount(index[index < bins], minlength=bins)
    return float(counts.var() / counts.mean())


def cv_of_gaps(arrival_s: Seconds) -> float | None:
    """Standard deviation / mean of the gaps; None without a span. Poisson: 1."""
    gaps_s = np.diff(arrival_s)
    if not gaps_s.any():
        return None
    return float(gaps_s.std() / gaps_s.mean())


def silences(arrival_s: Seconds) -> Silences:
    """Gaps longer than both 60 s and 50 mean gaps."""
    gaps_s = np.diff(arrival_s)
    mean_s = float(gaps_s.mean()) if gaps_s.size else 0.0
    longer_than_s = max(SILENCE_S, SILENCE_MEAN_GAPS * mean_s)
    long_s = gaps_s[gaps_s > longer_than_s]
    ends = (float(long_s.min()), float(long_s.max())) if long_s.size else (None, None)
    return Silences(longer_than_s, int(long_s.size), *ends)


def grid_s(arrival_s: Seconds) -> float | None:
    """The widest of the common grids (1 ms to 1 h) that 98 % of the times sit on, give or take 2 ms.

    A continuous time sits on a grid by chance with probability 2 x tolerance / width, at most 0.4 %
    here, so a grid is not imagined; below 20 rows nothing is said.
    """
    if arrival_s.size < _ROWS_TO_JUDGE or arrival_s[-1] == arrival_s[0]:
        return None
    since_s = arrival_s - arrival_s[0]
    for width_s in (*map(float, _QUANTA_S), *_FINE_QUANTA_S):
        # One cell is no grid: a trace shorter than the width would sit on it trivially.
        if since_s[-1] < width_s:
            continue
        off_s = np.abs(since_s - np.round(since_s / width_s) * width_s)
        if (off_s <= min(_ON_GRID_TOLERANCE_S, 0.002 * width_s)).mean() >= _ON_GRID_SHARE:
            return width_s
    return None


def rate_curve_rps(arrival_s: Seconds, start_s: float, span_s: float, bins: int) -> list[float]:
    """Mean rate in `bins` equal parts of a span."""
    counts, edges = np.histogram(arrival_s, bins, (start_s, start_s + (span_s or 1.0)))
    return [float(rate) for rate in counts / np.diff(edges)]
