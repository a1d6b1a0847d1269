"""The summary as plain JSON values. Keys are a contract: more may come, none leave.

Seconds, tokens, shares 0..1; null = unknown.
"""

from dataclasses import asdict
from typing import Any

from loadkit.analysis.lanes import LaneSummary
from loadkit.analysis.quantiles import Quantiles
from loadkit.analysis.slo import SloResult
from loadkit.analysis.summary import RunSummary

_LATENCIES = (
    "ttft", "prefill", "tpot", "itl", "stall", "e2e", "ttft_sent", "send_lag", "decode", "connect",
)  # fmt: skip


def to_json(summary: RunSummary) -> dict[str, Any]:
    return {
        "run": str(summary.path),
        "valid": summary.validity.valid,
        "reasons": summary.validity.reasons,
        "warnings": summary.validity.warnings,
        "state": summary.manifest.state,
        "duration_s": summary.end_s,
        "offered": summary.offered,
        "completed": summary.completed,
        "without_row": summary.missing,
        "lanes": {lane.lane: _lane(lane) for lane in summary.lanes},
        "tenants": [{"lane": t.lane, "tenant": t.tenant, **_lane(t)} for t in summary.tenants],
        "failures": [asdict(failure) for failure in summary.failures],
        "events": [dict(event) for event in summary.manifest.events],
        "slos": [_slo(result) for result in summary.slos],
        "send_lag_s": _quantiles(summary.send_lag),
        "preemptions": summary.preemptions.total,
        "recomputed_tokens": summary.preemptions.recomputed_tokens,
        "ledger": [line._asdict() for line in summary.ledger],
        "littles_law": None if summary.littles_law is None else asdict(summary.littles_law),
        "server": asdict(summary.server),
        "checks": [check._asdict() for check in summary.validity.checks],
    }


def _lane(lane: LaneSummary) -> dict[str, Any]:
    return {
        "offered": lane.offered,
        "completed": lane.completed,
        "statuses": dict(lane.statuses),
        "retries": lane.retries,
        "offered_rps": lane.offered_rps,
        "completed_rps": lane.completed_rps,
        "goodput_share": lane.goodput_share,
        "deadlines": lane.deadlines,
        "deadline_share": lane.deadline_share,
        **{f"{name}_s": _quantiles(lane.latencies[name]) for name in _LATENCIES},
        "queue_wait_s": {
            **_quantiles(lane.latencies["queue_wait"]),
            "source": lane.queue_wait_source,
            "sources": dict(lane.queue_wait_sources),
        },
        "failed_ttft_s": _quantiles(lane.failed_ttft),
        "prompt_tokens": lane.prompt_tokens,
        "output_tokens": lane.output_tokens,
        "preemptions": lane.preemptions,
        "time_parts_s": dict(lane.time_parts),
    }


def _quantiles(values: Quantiles) -> dict[str, Any]:
    return {**values._asdict(), "few_samples": values.few_samples}


def _slo(result: SloResult) -> dict[str, Any]:
    return {
        **asdict(result.slo),
        "value_s": result.value_s,
        "within_share": result.within_share,
        "met": result.met,
        "why": result.why,
    }
