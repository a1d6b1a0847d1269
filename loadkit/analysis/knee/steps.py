"""One step of a search: a normal run at one rate, whose first seconds only fill the server."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis import facts as run_facts
from loadkit.analysis import samples
from loadkit.analysis.facts import Facts
from loadkit.analysis.knee.crossing import StepShare
from loadkit.analysis.knee.stability import Stability, stability
from loadkit.analysis.metrics import METRICS
from loadkit.model import ServerMetric, Slo
from loadkit.records import RunDir

Floats = NDArray[np.float64]
Role = Literal["baseline", "bracket", "sample", "ladder", "saturation", "soak"]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a step offers: `rate_rps` of the scaled lanes for `warm_s`, then for `measure_s`."""

    role: Role
    rate_rps: float
    warm_s: float
    measure_s: float


@dataclass(frozen=True, slots=True)
class Use:
    """Shares 0..1 of what the server has, on average over the measured time; None = it does not tell."""

    slots: float | None = None
    kv: float | None = None
    token_budget: float | None = None

    @property
    def bottleneck(self) -> str | None:
        told = {"slots": self.slots, "KV cache": self.kv, "token budget": self.token_budget}
        known = {name: share for name, share in told.items() if share is not None}
        return max(known, key=lambda name: known[name]) if known else None


@dataclass(frozen=True, slots=True)
class Step:
    plan: StepPlan
    latency_s: Floats
    """The SLO's metric of every request that arrived in the measured time; infinite without an answer."""
    queue_wait_s: Floats
    """The same of queue wait, where the engine tells it."""
    tpot_s: Floats
    e2e_s: Floats
    completed_rps: float
    """Answers that ended in the measured time / its length."""
    rejected: int
    preemptions: int | None
    stability: Stability
    use: Use
    valid: bool

    def missed(self, threshold_s: float) -> StepShare:
        late = int((self.latency_s > threshold_s).sum())
        return StepShare(self.plan.rate_rps, len(self.latency_s), late)

    def queued(self, threshold_s: float) -> StepShare:
        late = int((self.queue_wait_s > threshold_s).sum())
        return StepShare(self.plan.rate_rps, len(self.queue_wait_s), late)


def read_step(run: RunDir, plan: StepPlan, slo: Slo) -> Step:
    """Requests of the SLO's lane by their arrival, all followed to their end. Raises RunError."""
    facts = run_facts.load(run)
    start_s, end_s = plan.warm_s, plan.warm_s + plan.measure_s
    offered = facts.offered
    lane = offered[offered["lane"] == slo.lane]
    cohort = lane[lane["scheduled_s"].between(start_s, end_s, inclusive="left")]
    answered = (cohort["status"] == "ok").to_numpy(bool)
    finished = (lane["status"] == "ok") & lane["finished_s"].between(start_s, end_s)
    queue_wait_s = _values(cohort, "queue_wait", answered)
    known = cohort["preemptions"].dropna()
    rate_rps = len(cohort) / plan.measure_s
    return Step(
        plan=plan,
        latency_s=_values(cohort, slo.metric, answered),
        queue_wait_s=queue_wait_s if np.isfinite(queue_wait_s).any() else np.empty(0),
        tpot_s=METRICS["tpot"].of(cohort[answered]).dropna().to_numpy(float),
        e2e_s=_values(cohort, "e2e", answered),
        completed_rps=float(finished.sum()) / plan.measure_s,
        rejected=int((cohort["status"] == "rejected").sum()),
        preemptions=int(known.sum()) if len(known) else None,
        stability=stability(_without_token(lane, start_s, end_s), rate_rps),
        use=_use(facts, start_s, end_s),
        valid=(facts.manifest.validity or {}).get("valid") is not False,
    )


def _values(cohort: pd.DataFrame, metric: str, answered: NDArray[np.bool_]) -> Floats:
    """Infinite where there is no answer or no value: such a request met nothing."""
    values = METRICS[metric].of(cohort).to_numpy(float)
    found: Floats = np.where(answered & ~np.isnan(values), values, np.inf)
    return found


def _without_token(lane: pd.DataFrame, start_s: float, end_s: float) -> list[float]:
    """Requests that were due and had no first token yet, once a second."""
    grid_s = np.arange(start_s, end_s + 0.5)
    due_s = np.sort(lane["scheduled_s"].to_numpy(float))
    served_s = lane["first_token_s"].fillna(lane["finished_s"]).fillna(np.inf).to_numpy(float)
    waiting = np.searchsorted(due_s, grid_s, "right") - np.searchsorted(
        np.sort(served_s), grid_s, "right"
    )
    counts: list[float] = waiting.astype(float).tolist()
    return counts


def _use(facts: Facts, start_s: float, end_s: float) -> Use:
    server = facts.server
    capacity = facts.manifest.target.get("capacity") or {}
    slots = capacity.get("max_num_seqs") or _last(server, ServerMetric.MAX_NUM_SEQS)
    running = _mean(server, ServerMetric.REQUESTS_RUNNING, start_s, end_s)
    return Use(
        slots=running / slots if slots and running is not None else None,
        kv=_mean(server, ServerMetric.KV_USAGE_RATIO, start_s, end_s),
    )


def _mean(server: pd.DataFrame, name: ServerMetric, start_s: float, end_s: float) -> float | None:
    return samples.time_mean(samples.gauge(server, name), start_s, end_s)


def _last(server: pd.DataFrame, name: ServerMetric) -> float | None:
    values = samples.gauge(server, name).dropna()
    return float(values.iloc[-1]) if len(values) else None
