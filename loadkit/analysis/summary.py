"""One run → one small summary with its verdict. The reports read this and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis import lanes, samples, slo
from loadkit.analysis.cautions import cautions
from loadkit.analysis.facts import Facts, load
from loadkit.analysis.failures import Failure, failures
from loadkit.analysis.lanes import LaneSummary
from loadkit.analysis.ledger import LedgerLine, ledger
from loadkit.analysis.littles_law import LittlesLaw, littles_law
from loadkit.analysis.quantiles import Quantiles
from loadkit.analysis.slo import SloResult
from loadkit.analysis.timeline import Timeline, timeline
from loadkit.analysis.validity import (
    Validity,
    checks_of_the_generator,
    checks_of_the_target,
    send_lag,
)
from loadkit.errors import CriterionFailedError, InvalidRunError
from loadkit.model import ServerMetric
from loadkit.records import Manifest, RunDir

DISTRIBUTIONS = ("ttft", "queue_wait", "tpot", "e2e")
_CURVE_POINTS = 400


@dataclass(frozen=True, slots=True)
class Preemptions:
    """As the server counted them and as the engine told them per request; unknown is None."""

    server: int | None
    client: int | None
    recomputed_tokens: int | None

    @property
    def total(self) -> int | None:
        return self.client if self.server is None else self.server


@dataclass(frozen=True, slots=True)
class ServerMeans:
    """Time-means over the run and means of the server's own histograms; unknown is None."""

    running: float | None
    waiting: float | None
    waiting_peak: float | None
    slot_use_share: float | None
    """Mean running / the most that the engine runs at once."""
    kv_usage_ratio: float | None
    kv_usage_peak_ratio: float | None
    queue_wait_s: float | None
    """Over finished requests only: in overload, those still waiting are not in it."""
    prefill_s: float | None
    ttft_s: float | None
    e2e_s: float | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    path: Path
    manifest: Manifest
    validity: Validity
    lanes: tuple[LaneSummary, ...]
    tenants: tuple[LaneSummary, ...]
    tenants_left_out: int
    failures: tuple[Failure, ...]
    slos: tuple[SloResult, ...]
    send_lag: Quantiles
    preemptions: Preemptions
    ledger: tuple[LedgerLine, ...]
    littles_law: LittlesLaw | None
    server: ServerMeans
    timeline: Timeline
    distributions: Mapping[str, Mapping[str, NDArray[np.float64]]]
    """metric → lane → evenly spaced order statistics of the ok requests, smallest to largest."""
    offered: int
    completed: int
    missing: int
    """Requests that were due and have no row."""
    due_span_s: float
    end_s: float


def summarize(run: RunDir) -> RunSummary:
    """Everything the report says, from files alone. Raises RunError when they cannot be read."""
    facts = load(run)
    lines = ledger(facts)
    per_lane = lanes.lanes(facts)
    per_tenant = lanes.tenants(facts)
    checks = (
        *checks_of_the_generator(facts),
        *checks_of_the_target(facts, lines),
        *cautions(facts),
    )
    return RunSummary(
        path=run.path,
        manifest=facts.manifest,
        validity=Validity(checks),
        lanes=tuple(per_lane),
        tenants=tuple(per_tenant),
        tenants_left_out=facts.offered.groupby("lane")["tenant"].nunique().sum() - len(per_tenant),
        failures=tuple(failures(facts)),
        slos=tuple(slo.judge(facts, s) for s in slo.slos_of(facts.manifest.slos)),
        send_lag=send_lag(facts),
        preemptions=preemptions_of(facts),
        ledger=tuple(lines),
        littles_law=littles_law(facts),
        server=server_means(facts),
        timeline=timeline(facts),
        distributions=_distributions(facts, [lane.lane for lane in per_lane]),
        offered=len(facts.offered),
        completed=sum(lane.completed for lane in per_lane),
        missing=len(facts.missing),
        due_span_s=facts.due_span_s,
        end_s=facts.end_s,
    )


def exit_code(summary: RunSummary) -> int:
    """3 = invalid, 1 = an SLO was not met or could not be judged, 0 = neither."""
    if not summary.validity.valid:
        return InvalidRunError.exit_code
    if any(not result.met for result in summary.slos):
        return CriterionFailedError.exit_code
    return 0


def preemptions_of(facts: Facts) -> Preemptions:
    server = samples.increase(facts.server, ServerMetric.PREEMPTIONS_TOTAL)
    return Preemptions(
        server=None if server is None else round(server),
        client=lanes.total(facts.attempts["preemptions"]),
        recomputed_tokens=lanes.total(facts.attempts["recomputed_tokens"]),
    )


def server_means(facts: Facts) -> ServerMeans:
    m = ServerMetric
    running, slots = _time_mean(facts, m.REQUESTS_RUNNING), slots_of(facts)
    kv = samples.gauge(facts.server, m.KV_USAGE_RATIO, largest=True)
    return ServerMeans(
        running=running,
        waiting=_time_mean(facts, m.REQUESTS_WAITING),
        waiting_peak=_peak(samples.gauge(facts.server, m.REQUESTS_WAITING)),
        slot_use_share=running / slots if running is not None and slots else None,
        kv_usage_ratio=samples.time_mean(kv, 0.0, facts.end_s),
        kv_usage_peak_ratio=_peak(kv),
        queue_wait_s=_ratio(facts, m.QUEUE_TIME_SECONDS_SUM, m.QUEUE_TIME_SECONDS_COUNT),
        prefill_s=_ratio(facts, m.PREFILL_TIME_SECONDS_SUM, m.PREFILL_TIME_SECONDS_COUNT),
        ttft_s=_ratio(facts, m.TTFT_SECONDS_SUM, m.TTFT_SECONDS_COUNT),
        e2e_s=_ratio(facts, m.E2E_SECONDS_SUM, m.E2E_SECONDS_COUNT),
    )


def slots_of(facts: Facts) -> float | None:
    told = _peak(samples.gauge(facts.server, ServerMetric.MAX_NUM_SEQS))
    return told or (facts.manifest.target.get("capacity") or {}).get("max_num_seqs")


def _time_mean(facts: Facts, name: ServerMetric) -> float | None:
    return samples.time_mean(samples.gauge(facts.server, name), 0.0, facts.end_s)


def _peak(values: pd.Series) -> float | None:
    return float(values.max()) if values.notna().any() else None


def _ratio(facts: Facts, total: ServerMetric, count: ServerMetric) -> float | None:
    n = samples.increase(facts.server, count)
    gained = samples.increase(facts.server, total)
    return gained / n if gained is not None and n else None


def _distributions(facts: Facts, names: list[str]) -> dict[str, dict[str, NDArray[np.float64]]]:
    ok = facts.offered["status"] == "ok"
    return {
        metric: {
            lane: curve
            for lane in names
            if len(
                curve := _curve(
                    facts, metric, (ok & (facts.offered["lane"] == lane)).to_numpy(bool)
                )
            )
        }
        for metric in DISTRIBUTIONS
    }


def _curve(facts: Facts, metric: str, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    ordered = np.sort(np.asarray(slo.metric_values(facts, metric, rows), dtype=np.float64))
    if len(ordered) <= _CURVE_POINTS:
        return ordered
    places = np.linspace(0, len(ordered) - 1, _CURVE_POINTS).round().astype(int)
    return np.asarray(ordered[places])
