"""Counters and gauges of a target over time: reset-aware increases, gaps kept as gaps.

Samples come at about 1 Hz. What a failed scrape missed stays unknown; nothing is interpolated.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from loadkit.model import ServerMetric

COUNTER_SUFFIXES = ("_total", "_sum", "_count")
_GAP_INTERVALS = 3.0
"""A pause longer than this many usual intervals is a gap."""


class Reset(NamedTuple):
    """A counter that went down: the target was restarted somewhere before `t_s`."""

    t_s: float
    target: str
    name: str


def of(samples: pd.DataFrame, name: ServerMetric) -> pd.DataFrame:
    return samples[samples["name"] == name.value]


def increase(samples: pd.DataFrame, name: ServerMetric) -> float | None:
    """What a counter gained from a target's first scrape to its last, over all its series.

    After a reset the whole new value counts (the part lost in the restart cannot be known). A series
    that appears later than the target's first scrape began at 0. None when it was never seen.
    """
    rows = of(samples, name)
    if rows.empty:
        return None
    first_scrape_s = _scraped(samples).groupby("target")["t_s"].min()
    series = rows.sort_values("t_s").groupby(["target", "labels"])
    steps = series["value"].diff()
    appeared = steps.isna() & (rows["t_s"] > rows["target"].map(first_scrape_s))
    steps = steps.where(~appeared, rows["value"]).where(~(steps < 0), rows["value"])
    return float(steps.sum())


def resets(samples: pd.DataFrame) -> list[Reset]:
    """Every instant at which a counter of a target went down, one per target and instant."""
    counters = samples[samples["name"].str.endswith(COUNTER_SUFFIXES)].sort_values("t_s")
    fell = counters.groupby(["target", "name", "labels"])["value"].diff() < 0
    rows = counters[fell].drop_duplicates(["target", "t_s"])
    return [
        Reset(float(t_s), str(target), str(name))
        for t_s, target, name in zip(rows["t_s"], rows["target"], rows["name"], strict=True)
    ]


def gauge(samples: pd.DataFrame, name: ServerMetric, *, largest: bool = False) -> pd.Series:
    """A gauge on the time axis, summed over series and targets (or the largest of them).

    NaN at failed scrapes and inside gaps; empty when the target never told it.
    """
    rows = of(samples, name)
    if rows.empty:
        return pd.Series(dtype=float)
    per_target = rows.groupby(["t_s", "target"])["value"].agg("max" if largest else "sum")
    wide = per_target.unstack("target").sort_index()  # noqa: PD010 (a pivot would need the sum twice)
    if wide.shape[1] > 1:
        wide = wide.ffill(limit=2 * wide.shape[1])
    values = wide.max(axis=1) if largest else wide.sum(axis=1, skipna=False)
    return _with_gaps(values, failed_scrapes_s(samples))


def rate(samples: pd.DataFrame, name: ServerMetric) -> pd.Series:
    """Increase per second of a counter between neighbouring scrapes; NaN across gaps."""
    rows = of(samples, name).sort_values("t_s")
    if rows["t_s"].nunique() < 2:
        return pd.Series(dtype=float)
    steps = rows.groupby(["target", "labels"])["value"].diff()
    steps = steps.where(~(steps < 0), rows["value"])
    total = steps.groupby(rows["t_s"]).sum(min_count=1).iloc[1:]
    waited_s = np.diff(np.unique(rows["t_s"]))
    per_s: pd.Series = (total / waited_s).where(waited_s <= _GAP_INTERVALS * np.median(waited_s))
    return _with_gaps(per_s, failed_scrapes_s(samples))


def time_mean(values: pd.Series, start_s: float, end_s: float) -> float | None:
    """Mean over a window, each sample weighing the time to the next; gaps weigh nothing."""
    window = values[(values.index >= start_s) & (values.index <= end_s)]
    if len(window) < 2:
        return None
    weights = np.diff(window.index.to_numpy(float))
    level = window.to_numpy(float)[:-1]
    known = ~np.isnan(level)
    if not weights[known].sum():
        return None
    return float(np.average(level[known], weights=weights[known]))


def failed_scrapes_s(samples: pd.DataFrame) -> list[float]:
    told = of(samples, ServerMetric.SCRAPE_OK)
    return sorted(told.loc[told["value"] == 0, "t_s"])


def scraped_window_s(samples: pd.DataFrame) -> tuple[float, float] | None:
    """From the first good scrape that every target had to the last; None without any."""
    rows = _scraped(samples)
    if rows.empty:
        return None
    by_target = rows.groupby("target")["t_s"]
    return float(by_target.min().max()), float(by_target.max().min())


def _scraped(samples: pd.DataFrame) -> pd.DataFrame:
    return samples[samples["name"] != ServerMetric.SCRAPE_OK.value]


def _with_gaps(values: pd.Series, failed_s: list[float]) -> pd.Series:
    """The series with a NaN at every failed scrape and in the middle of every long pause."""
    times = values.index.to_numpy(float)
    steps = np.diff(times)
    usual = float(np.median(steps)) if len(steps) else np.inf
    pauses = np.flatnonzero(steps > _GAP_INTERVALS * usual)
    holes = sorted({*failed_s, *(times[i] + steps[i] / 2 for i in pauses)} - set(times))
    holes_series = pd.Series(np.nan, index=holes, dtype=float)
    return pd.concat([values, holes_series]).sort_index() if holes else values
