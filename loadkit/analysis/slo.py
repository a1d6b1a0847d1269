"""SLOs: did a lane meet them, and which requests were good.

A request that was offered and never answered met nothing: it counts against the SLO, or the server
that refuses most would look best. Only requests cut by the end of the run stay out of the verdict.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis import text
from loadkit.analysis.facts import Facts
from loadkit.analysis.metrics import METRICS
from loadkit.analysis.quantiles import quantile
from loadkit.model import Slo

_ONE_TOKEN_HAS_NONE = ("tpot", "itl", "stall")
"""Metrics that do not exist for an answer of a single token; such an answer cannot break them."""


@dataclass(frozen=True, slots=True)
class SloResult:
    slo: Slo
    value_s: float | None
    """The quantile among the requests that have the metric."""
    within_share: float | None
    """Requests (or chunk gaps, for ITL) within the threshold / those that count."""
    met: bool | None
    """None = cannot be told, which is not a pass."""
    why: str
    """In plain words."""


def slos_of(manifest_slos: tuple[Mapping[str, Any], ...]) -> list[Slo]:
    names = Slo.__dataclass_fields__
    return [Slo(**{k: v for k, v in slo.items() if k in names}) for slo in manifest_slos]


def slo_text(slo: Slo) -> str:
    return f"{slo.lane} {METRICS[slo.metric].title} p{slo.quantile * 100:g} ≤ {text.seconds(slo.threshold_s)}"


def judge(facts: Facts, slo: Slo) -> SloResult:
    """Met when at least the share `quantile` of what counts lies within the threshold."""
    in_lane = (facts.offered["lane"] == slo.lane) & (facts.offered["status"] != "cancelled")
    answered = in_lane & (facts.offered["status"] == "ok")
    values = metric_values(facts, slo.metric, answered.to_numpy(bool))
    if not in_lane.any():
        return SloResult(slo, None, None, None, f"no request was offered in lane {slo.lane!r}")
    if not len(values) and answered.any():
        return SloResult(
            slo, None, None, None, f"{METRICS[slo.metric].title} is not known in this run"
        )
    unanswered = int((in_lane & ~answered).sum())
    weight = len(values) / int(answered.sum()) if answered.any() else 1.0
    within = float((values <= slo.threshold_s).sum() / (len(values) + unanswered * weight))
    value_s = quantile(values, slo.quantile)
    met = within >= slo.quantile - 1e-12
    return SloResult(slo, value_s, within, met, _why(slo, within, unanswered))


def _why(slo: Slo, within: float, unanswered: int) -> str:
    what = "of chunk gaps" if METRICS[slo.metric].pooled else "of offered requests"
    missed = f"; {unanswered} requests without an answer count as missed" if unanswered else ""
    return f"{within:.2%} {what} within, {slo.quantile * 100:g}% asked{missed}"


def metric_values(facts: Facts, name: str, rows: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Known values of a metric over the chosen rows of `Facts.offered`; gaps for a pooled one."""
    if METRICS[name].pooled:
        return facts.gaps.where(rows)
    values: NDArray[np.floating] = METRICS[name].of(facts.offered[rows]).to_numpy(float)
    known: NDArray[np.floating] = values[~np.isnan(values)]
    return known


def goodput_share(offered: pd.DataFrame, slos: list[Slo]) -> float | None:
    """Requests of one lane that meet every SLO of the lane / offered. None without SLO or knowledge."""
    if not slos or offered.empty:
        return None
    good = offered["status"] == "ok"
    for slo in slos:
        met = _meets(offered, slo, good)
        if met is None:
            return None
        good = good & met
    return float(good.mean())


def _meets(offered: pd.DataFrame, slo: Slo, answered: pd.Series) -> pd.Series | None:
    values = METRICS[slo.metric].of(offered)
    exempt = pd.Series(slo.metric in _ONE_TOKEN_HAS_NONE, offered.index) & (
        offered["output_tokens"] < 2
    )
    if answered.any() and not (answered & (values.notna() | exempt)).any():
        return None
    return (values <= slo.threshold_s) | exempt
