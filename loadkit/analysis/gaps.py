"""Gaps between content chunks over time: when did streams stall, and for how long."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadkit.analysis.facts import Facts
from loadkit.analysis.quantiles import rank

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GapSeries:
    """Per bin, over the gaps that ended in it, whatever became of the request; NaN = none did."""

    edges_s: Array
    """Bin i covers edges[i] to edges[i + 1]."""
    p50_s: Array
    longest_s: Array
    longest_ended_s: Array


def gaps_over_time(facts: Facts, edges_s: Array) -> Mapping[str, GapSeries]:
    """Of every lane that streamed anything, over bins between rising `edges_s`."""
    gaps, offered = facts.gaps, facts.offered
    ended_s = offered["sent_s"].to_numpy(float)[gaps.row] + gaps.offset_s
    lane_of = offered["lane"].to_numpy()[gaps.row]
    return {
        str(lane): _series(edges_s, ended_s[lane_of == lane], gaps.seconds[lane_of == lane])
        for lane in sorted(set(offered["lane"][offered["longest_gap_s"].notna()]))
    }


def _series(edges_s: Array, ended_s: Array, seconds: NDArray[np.float32]) -> GapSeries:
    """Sorted by bin and then by length, the last of each bin is its longest."""
    bins = np.clip(np.searchsorted(edges_s, ended_s, "right") - 1, 0, len(edges_s) - 2)
    order = np.lexsort((seconds, bins))
    firsts = np.searchsorted(bins[order], np.arange(len(edges_s)))
    some = np.diff(firsts) > 0
    first, after = firsts[:-1][some], firsts[1:][some]
    middle = first + [rank(0.5, int(size)) for size in after - first]
    p50_s, longest_s, longest_ended_s = np.full((3, len(some)), np.nan)
    p50_s[some] = seconds[order[middle]]
    longest_s[some] = seconds[order[after - 1]]
    longest_ended_s[some] = ended_s[order[after - 1]]
    return GapSeries(edges_s, p50_s, longest_s, longest_ended_s)
