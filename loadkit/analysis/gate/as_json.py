"""The verdict on a release as plain JSON values: seconds, shares 0..1; null = unknown."""

from typing import Any

from loadkit.analysis.gate.gate import Gate, Result
from loadkit.analysis.gate.loads import Load

GATE_SCHEMA = "loadkit.gate/v1"


def gate_json(found: Gate) -> dict[str, Any]:
    """As published in `docs/gate.schema.json`."""
    return {
        "schema": GATE_SCHEMA,
        "verdict": found.verdict,
        "rules": [rule.text for rule in found.rules],
        "metrics": [_result(result) for result in found.results],
        "loads": [_load(load) for load in found.loads],
        "cautions": list(found.cautions),
    }


def _result(result: Result) -> dict[str, Any]:
    return {
        "load": result.load,
        "lane": result.lane,
        "metric": result.rule.measure.metric,
        "quantile": result.rule.measure.quantile,
        "unit": result.rule.measure.unit,
        "delta": result.rule.delta,
        "base": result.base,
        "new": result.new,
        "change": result.change,
        "low": result.low,
        "high": result.high,
        "relative": result.relative,
        "verdict": result.verdict,
        "pairs": result.pairs,
        "pairs_needed": result.pairs_needed,
        "why": result.why,
        "cause": result.cause or None,
    }


def _load(load: Load) -> dict[str, Any]:
    return {
        "name": load.name,
        "schedule_sha256": load.sha256,
        "interleaved": load.interleaved,
        "runs": [
            {
                "side": arm.label,
                "path": str(run.path),
                "created_utc": run.manifest.created_utc,
                "engine": run.manifest.target.get("engine"),
                "version": run.manifest.target.get("version"),
                "valid": run.validity.valid,
                "reasons": run.validity.reasons,
            }
            for arm in (load.base, load.new)
            for run in arm.runs
        ],
    }
