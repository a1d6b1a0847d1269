"""How many requests the engine was running, over time and by lane where that is known."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis import samples
from loadkit.analysis.facts import Facts
from loadkit.analysis.summary import slots_of
from loadkit.model import ServerMetric

_BINS = 160
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Mean number running in each bin, between `edges_s[i]` and `edges_s[i + 1]`; NaN = unknown."""

    edges_s: Array
    running: Mapping[str, Array]
    """By lane, or under the empty name where the server tells only the whole."""
    slots: float | None
    """The most that run at once, where it is known."""
    from_rows: bool
    """Worked out from waits and ends, because the server told no running requests."""

    @property
    def mean(self) -> float:
        return float(np.nanmean(np.sum(list(self.running.values()), axis=0)))


def occupancy(facts: Facts) -> Occupancy | None:
    """From the server's own gauge, otherwise from the rows; None where neither tells."""
    if facts.end_s <= 0:
        return None
    edges_s = np.linspace(0.0, facts.end_s, _BINS + 1)
    told = samples.of(facts.server, ServerMetric.REQUESTS_RUNNING)
    running = _from_gauge(facts, told, edges_s) if len(told) else _from_rows(facts.offered, edges_s)
    if facts.offered["source"].eq("sim").all():
        running = _lanes_of_whole(facts.offered, running, edges_s)
    return Occupancy(edges_s, running, slots_of(facts), told.empty) if running else None


def _from_gauge(facts: Facts, told: pd.DataFrame, edges_s: Array) -> dict[str, Array]:
    lane_of = {
        labels: str(json.loads(labels).get("lane", "")) for labels in told["labels"].unique()
    }
    lanes = told["labels"].map(lane_of)
    known = {lane: _levels(facts, told[lanes == lane], edges_s) for lane in sorted(set(lanes))}
    return {lane: levels for lane, levels in known.items() if np.isfinite(levels).any()}


def _lanes_of_whole(
    offered: pd.DataFrame, running: dict[str, Array], edges_s: Array
) -> dict[str, Array]:
    """A simulated whole is exact: what lanes without an eviction do not run, the evicted one does."""
    evicted = offered.groupby("lane")["preemptions"].sum()
    lanes = evicted[evicted > 0].index
    if set(running) != {""} or len(lanes) != 1:
        return running
    others = _from_rows(offered[offered["lane"] != lanes[0]], edges_s)
    rest = running[""] - np.sum(list(others.values()), axis=0)
    return {str(lanes[0]): np.maximum(rest, 0.0), **others}


def _levels(facts: Facts, told: pd.DataFrame, edges_s: Array) -> Array:
    """Mean of the samples in each bin; a bin between two samples has the level of the one before."""
    failed = samples.of(facts.server, ServerMetric.SCRAPE_OK)
    gauge = samples.gauge(pd.concat([told, failed]), ServerMetric.REQUESTS_RUNNING)
    bins = np.clip(np.searchsorted(edges_s, gauge.index.to_numpy(float), "right") - 1, 0, _BINS - 1)
    levels = gauge.groupby(bins).mean().reindex(range(_BINS))
    gaps = gauge.isna().groupby(bins).any().reindex(range(_BINS), fill_value=False)
    return np.asarray(levels.where(gaps, levels.ffill()), dtype=np.float64)


def _from_rows(offered: pd.DataFrame, edges_s: Array) -> dict[str, Array]:
    """A request runs from the end of its queue wait to its end, if nothing evicted it in between."""
    if not offered["queue_wait_s"].notna().any() or offered["preemptions"].fillna(0).any():
        return {}
    served = offered[offered["queue_wait_s"].notna()]
    came_s = served["sent_s"].fillna(served["scheduled_s"])
    begun_s = came_s + served["queue_wait_s"]
    ended_s = served["finished_s"].fillna(edges_s[-1]).clip(lower=begun_s)
    return {
        str(lane): _mean_number(begun_s[rows.index], ended_s[rows.index], edges_s)
        for lane, rows in served.groupby("lane", sort=True)
    }


def _mean_number(begun_s: pd.Series, ended_s: pd.Series, edges_s: Array) -> Array:
    busy_s = _elapsed_s(begun_s, edges_s) - _elapsed_s(ended_s, edges_s)
    return np.asarray(np.diff(busy_s) / np.diff(edges_s), dtype=np.float64)


def _elapsed_s(instants_s: pd.Series, at_s: Array) -> Array:
    """Sum over the instants before each `at_s` of the time since."""
    ordered = np.sort(instants_s.to_numpy(float))
    before = np.searchsorted(ordered, at_s, "right")
    sums_s = np.concatenate([[0.0], np.cumsum(ordered)])
    return np.asarray(before * at_s - sums_s[before], dtype=np.float64)
