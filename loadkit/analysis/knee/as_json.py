"""What a search found as plain JSON values: seconds, rates, shares 0..1; null = unknown."""

from dataclasses import asdict
from typing import Any

import numpy as np

from loadkit.analysis.knee.findings import Estimate, Findings
from loadkit.analysis.knee.result import KneeResult
from loadkit.analysis.knee.steps import Step


def knee_json(result: KneeResult) -> dict[str, Any]:
    """`status` is that of the capacity; a number without a value is null with its `reason` beside it."""
    findings, soak = result.findings, result.soak
    base = findings.baseline
    return {
        "status": findings.capacity.status,
        "slo": asdict(findings.slo),
        "capacity_at_slo": _estimate(findings.capacity),
        "turn_up": _estimate(findings.turn_up),
        "queue_wait_turn_up": _estimate(findings.queue_turn_up),
        "saturation": _estimate(findings.saturation),
        "baseline_p99_s": base and {"value": base.p99_s, "low": base.low_s, "high": base.high_s},
        "soak": soak and soak[1],
        "alone": result.alone and knee_json(result.alone),
        "sharing": result.sharing and asdict(result.sharing),
        "ended_why": result.ended_why,
        "steps": [
            _step(step, findings, run) for step, run in zip(result.steps, result.runs, strict=True)
        ],
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    use = found.utilisation
    return {
        "rps": found.rps,
        "low": found.low_rps,
        "high": found.high_rps,
        "utilisation": use and dict(zip(("value", "low", "high"), use, strict=True)),
        "reason": None if found.rps else found.status,
    }


def _step(step: Step, findings: Findings, run: str) -> dict[str, Any]:
    share = step.missed(findings.slo.threshold_s)
    return {
        "run": run,
        **asdict(step.plan),
        "requests": share.requests,
        "missed": share.missed,
        "p50_s": _quantile(step, 0.5),
        "p99_s": _quantile(step, 0.99),
        "completed_rps": step.completed_rps,
        "rejected": step.rejected,
        "preemptions": step.preemptions,
        "stability": step.stability,
        "overloaded": step.overloaded,
        "use": asdict(step.use),
        "valid": step.valid,
    }


def _quantile(step: Step, share: float) -> float | None:
    """None where the quantile lies among requests without an answer."""
    if not len(step.latency_s):
        return None
    value = float(np.quantile(step.latency_s, share, method="higher"))
    return value if np.isfinite(value) else None
