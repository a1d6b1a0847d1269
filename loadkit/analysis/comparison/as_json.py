"""The comparison as plain JSON values. Keys are a contract: more may come, none leave.

Seconds, counts, shares 0..1; null = unknown or not to be told.
"""

from dataclasses import asdict
from typing import Any

from loadkit.analysis.comparison.compare import Comparison
from loadkit.analysis.comparison.differences import Difference
from loadkit.analysis.comparison.measures import WHOLE_RUN
from loadkit.analysis.comparison.runs import Arm
from loadkit.analysis.comparison.tradeoff import SloMark


def comparison_json(comparison: Comparison, conclusion: str) -> dict[str, Any]:
    """`conclusion` is the plain-words answer of the report."""
    return {
        "runs": [_arm(comparison, arm) for arm in comparison.arms],
        "baseline": comparison.baseline.label,
        "exact": comparison.exact,
        "settings_shared": dict(comparison.settings.shared),
        "settings_differing": list(comparison.settings.differing),
        "on_other_work": list(comparison.on_other_work),
        "differences": [_difference(each) for each in comparison.differences],
        "slos": [_mark(mark) for mark in comparison.marks],
        "trade_off": _trade_off(comparison),
        "choice": None if comparison.choice is None else asdict(comparison.choice),
        "cautions": list(comparison.cautions),
        "conclusion": conclusion,
    }


def _arm(comparison: Comparison, arm: Arm) -> dict[str, Any]:
    return {
        "label": arm.label,
        "paths": [str(run.path) for run in arm.runs],
        "source": "sim" if arm.simulated else "live",
        "valid": not arm.reasons,
        "reasons": arm.reasons,
        "settings": {key: arm.settings.get(key) for key in comparison.settings.differing},
        "lanes": {lane: _lane(comparison, arm, lane) for lane in comparison.lanes},
        "whole": {each.metric: arm.mean((None, each.key)) for each in WHOLE_RUN},
    }


def _lane(comparison: Comparison, arm: Arm, lane: str) -> dict[str, Any]:
    """Means over the runs by measure: `ttft_p99`, `completed_per_h`, …"""
    names = {m.key: _name(m.metric, m.quantile) for m in comparison.measures if m.of}
    return {name: arm.mean((lane, key)) for key, name in names.items()}


def _name(metric: str, quantile: float | None) -> str:
    if quantile is None:
        return metric
    return f"{metric}_max_s" if quantile == 1.0 else f"{metric}_p{quantile * 100:g}_s"


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "run": found.arm,
        "lane": found.lane,
        "metric": found.measure.metric,
        "quantile": found.measure.quantile,
        "unit": found.measure.unit,
        "better": found.measure.better,
        "a": found.a,
        "b": found.b,
        "change": found.change,
        "change_is": "relative" if found.relative else "absolute",
        "low": found.low,
        "high": found.high,
        "verdict": found.verdict,
        "pairs": found.pairs,
        "pairs_needed": found.pairs_needed,
        "why": found.why,
    }


def _mark(mark: SloMark) -> dict[str, Any]:
    return {
        "run": mark.label,
        **asdict(mark.slo),
        "met": mark.met,
        "met_in_runs": sum(result.met is True for result in mark.results),
        "runs": len(mark.results),
        "value_s": [result.value_s for result in mark.results],
        "within_share": [result.within_share for result in mark.results],
    }


def _trade_off(comparison: Comparison) -> dict[str, Any] | None:
    found = comparison.trade_off
    if found is None:
        return None
    return {
        "tail_lane": found.tail_lane,
        "work_lane": found.work_lane,
        "tail_metric": found.tail.metric,
        "tail_quantile": found.tail.quantile,
        "runs": [asdict(standing) for standing in found.standings],
    }
