"""Series on one time axis: what was offered, sent and completed, TTFT, and the target's own state."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis import samples
from loadkit.analysis.facts import Facts
from loadkit.analysis.gaps import GapSeries, gaps_over_time
from loadkit.analysis.metrics import METRICS
from loadkit.analysis.quantiles import quantile
from loadkit.model import ServerMetric

MOST_BINS = 60
MOST_POINTS = 1500
_IN_FLIGHT_POINTS = 600
_WIDTHS_S = (0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LaneSeries:
    ttft_p50_s: Array
    """Per bin of the due instant; NaN where nothing was answered. So are p99 and the counts."""
    ttft_p99_s: Array
    points: Array
    """At most `MOST_POINTS` evenly picked (due instant, TTFT) pairs, shape (n, 2)."""
    due: Array
    """Of the requests with a deadline, how many were due by the end of each bin ..."""
    deadlines: Array
    """... how many deadlines had passed ..."""
    in_time: Array
    """... and how many had ended ok and in time."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rates are per second over bins of `width_s`; bin i covers edges[i] to edges[i + 1]."""

    width_s: float
    edges_s: Array
    offered_rps: Array
    sent_rps: Array
    completed_rps: Array
    failed_rps: Array
    in_flight: tuple[Array, Array]
    """(instants, client's count)."""
    lanes: Mapping[str, LaneSeries]
    gaps: Mapping[str, GapSeries]
    """By lane; only of lanes that streamed."""
    server: Mapping[str, tuple[Array, Array]]
    """(instants, values) by `running, waiting, kv_usage, preemptions_per_s`; NaN = a gap."""


def timeline(facts: Facts) -> Timeline:
    edges_s = _edges_s(max(facts.end_s, facts.due_span_s))
    rows = facts.offered
    ended = rows["finished_s"]
    good = rows["status"] == "ok"
    return Timeline(
        width_s=float(edges_s[1] - edges_s[0]),
        edges_s=edges_s,
        offered_rps=_rate(rows["scheduled_s"], edges_s),
        sent_rps=_rate(facts.attempts["sent_s"], edges_s),
        completed_rps=_rate(ended[good], edges_s),
        failed_rps=_rate(ended.fillna(rows["scheduled_s"])[~good], edges_s),
        in_flight=_in_flight(facts, np.linspace(0, edges_s[-1], _IN_FLIGHT_POINTS)),
        lanes={
            str(lane): _lane_series(group, edges_s)
            for lane, group in rows.groupby("lane", sort=True)
        },
        gaps=gaps_over_time(facts, edges_s),
        server=_server(facts),
    )


def _edges_s(end_s: float) -> Array:
    width_s = next((w for w in _WIDTHS_S if end_s / w <= MOST_BINS), end_s / MOST_BINS)
    bins = max(1, int(np.ceil(end_s / width_s)))
    return np.arange(bins + 1, dtype=np.float64) * width_s


def _rate(instants_s: pd.Series, edges_s: Array) -> Array:
    counts, _ = np.histogram(instants_s.dropna(), bins=edges_s)
    return np.asarray(counts / (edges_s[1] - edges_s[0]), dtype=np.float64)


def _in_flight(facts: Facts, instants_s: Array) -> tuple[Array, Array]:
    sent = facts.attempts[facts.attempts["sent_s"].notna()]
    begun = np.sort(sent["sent_s"].to_numpy(float))
    ended = np.sort(sent["finished_s"].fillna(facts.end_s).to_numpy(float))
    now = np.searchsorted(begun, instants_s, "right") - np.searchsorted(ended, instants_s, "right")
    return instants_s, np.asarray(now, dtype=np.float64)


def _lane_series(rows: pd.DataFrame, edges_s: Array) -> LaneSeries:
    ok = rows[rows["status"] == "ok"]
    ttft_s = METRICS["ttft"].of(ok).dropna()
    due_s = ok["scheduled_s"][ttft_s.index]
    bins = np.clip(np.searchsorted(edges_s, due_s, "right") - 1, 0, len(edges_s) - 2)
    groups = ttft_s.groupby(bins)
    every = max(1, -(-len(ttft_s) // MOST_POINTS))
    bound = rows[rows["deadline_s"].notna()]
    kept = bound[(bound["status"] == "ok") & (bound["finished_s"] <= bound["deadline_s"])]
    return LaneSeries(
        ttft_p50_s=_per_bin(groups, 0.5, len(edges_s) - 1),
        ttft_p99_s=_per_bin(groups, 0.99, len(edges_s) - 1),
        points=np.column_stack([due_s, ttft_s]).astype(float)[::every],
        due=_passed(bound["scheduled_s"], edges_s),
        deadlines=_passed(bound["deadline_s"], edges_s),
        in_time=_passed(kept["finished_s"], edges_s),
    )


def _per_bin(groups: "pd.api.typing.SeriesGroupBy", q: float, bins: int) -> Array:  # type: ignore[type-arg]
    values = np.full(bins, np.nan)
    for place, group in groups:
        found = quantile(group.to_numpy(float), q)
        values[int(place)] = np.nan if found is None else found
    return values


def _passed(instants_s: pd.Series, edges_s: Array) -> Array:
    ordered = np.sort(instants_s.to_numpy(float))
    return np.asarray(np.searchsorted(ordered, edges_s[1:], "right"), dtype=np.float64)


def _server(facts: Facts) -> dict[str, tuple[Array, Array]]:
    series = {
        "running": samples.gauge(facts.server, ServerMetric.REQUESTS_RUNNING),
        "waiting": samples.gauge(facts.server, ServerMetric.REQUESTS_WAITING),
        "kv_usage": samples.gauge(facts.server, ServerMetric.KV_USAGE_RATIO, largest=True),
        "preemptions_per_s": samples.rate(facts.server, ServerMetric.PREEMPTIONS_TOTAL),
    }
    return {
        name: (values.index.to_numpy(float), values.to_numpy(float))
        for name, values in series.items()
        if not values.empty
    }
