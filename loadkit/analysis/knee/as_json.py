"""What a search found as plain JSON values: seconds, rates, shares 0..1; null = unknown."""

from dataclasses import asdict
from typing import Any

from loadkit.analysis.knee.curve import load_curve
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
        "cautions": result.cautions,
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
    point = load_curve([step], findings)[0]
    return {
        "run": run,
        **asdict(step.plan),
        "utilisation": point.utilisation,
        "requests": point.requests,
        "missed": point.missed,
        "latency": asdict(point.latency),
        "tpot": asdict(point.tpot),
        "queue_wait": asdict(point.queue_wait),
        "completed_rps": step.completed_rps,
        "goodput_rps": point.goodput_rps,
        "rejected": step.rejected,
        "preemptions": step.preemptions,
        "stability": step.stability,
        "overloaded": step.overloaded,
        "use": asdict(step.use),
        "in_system": step.in_system,
        "littles_law": step.littles_law,
        "valid": step.valid,
    }
