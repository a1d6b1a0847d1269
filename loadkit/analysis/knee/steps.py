"""One step of a search: a normal run at one rate, whose first seconds only fill the server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

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
BOTTLENECK_SHARE = 0.5
"""What is less in use, on average and close to the capacity, does not hold a server back."""
Role = Literal["baseline", "bracket", "sample", "ladder", "saturation", "soak"]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a step offers: `rate_rps` of the scaled lanes for `warm_s`, then for `measure_s`."""

    role: Role
    rate_rps: float
    warm_s: float
    measure_s: float
    cut: bool = False
    """Ended early, so that `measure_s` is too short to say how the queue would have grown."""


def plan_of(told: Mapping[str, Any]) -> StepPlan:
    """From a step in KNEE_FILE."""
    return StepPlan(**{name: told[name] for name in StepPlan.__dataclass_fields__ if name in told})


@dataclass(frozen=True, slots=True)
class Use:
    """Shares 0..1 of what the server has, on average over the measured time; None = it does not tell."""

    slots: float | None = None
    kv: float | None = None
    token_budget: float | None = None

    @property
    def told(self) -> dict[str, float]:
        """By name, what is known."""
        named = {"slots": self.slots, "KV cache": self.kv, "token budget": self.token_budget}
        return {name: share for name, share in named.items() if share is not None}

    @property
    def bottleneck(self) -> str | None:
        """The largest, where it is large enough to be one."""
        name = max(self.told, key=lambda name: self.told[name], default=None)
        return name if name is not None and self.told[name] >= BOTTLENECK_SHARE else None


@dataclass(frozen=True, slots=True)
class Step:
    plan: StepPlan
    latency_s: Floats
    """The SLO's metric of the requests that arrived in the measured time; infinite without an answer.

    A request that has no such number (TPOT of a single token) is not in it.
    """
    queue_wait_s: Floats
    """The same of queue wait, where the engine tells it."""
    tpot_s: Floats
    e2e_s: Floats
    completed_rps: float
    """Answers of the scaled lanes that ended in the measured time / its length."""
    rejected: int
    preemptions: int | None
    stability: Stability
    """Of the queue of the SLO's lane."""
    overloaded: bool
    """The queue of the scaled lanes together is unstable; one of them may be spared by the policy."""
    use: Use
    running: float | None
    """Requests that the server computes, as it tells, on average over the measured time."""
    most_running: float | None
    """The most that ran at once, as the server tells."""
    in_system: float | None
    """Requests running or waiting, as the server tells, on average over the measured time."""
    littles_law: float | None
    """The same by L = arrival rate x mean time in the system, from all that arrived then; None where one
    of them has no end."""
    valid: bool

    @property
    def is_silent(self) -> bool:
        """Requests were answered, and not one of them has the SLO's metric."""
        return not len(self.latency_s) and bool(np.isfinite(self.e2e_s).any())

    def missed(self, threshold_s: float) -> StepShare:
        late = int((self.latency_s > threshold_s).sum())
        return StepShare(self.plan.rate_rps, len(self.latency_s), late)

    def queued(self, threshold_s: float) -> StepShare:
        late = int((self.queue_wait_s > threshold_s).sum())
        return StepShare(self.plan.rate_rps, len(self.queue_wait_s), late)


def read_step(run: RunDir, plan: StepPlan, slo: Slo, scaled: Sequence[str] = ()) -> Step:
    """Requests of the SLO's lane by their arrival, all followed to their end.

    Rates and queue are those of the `scaled` lanes, none = all. Raises RunError.
    """
    facts = run_facts.load(run)
    start_s, end_s = plan.warm_s, plan.warm_s + plan.measure_s
    offered = facts.offered
    due = offered[offered["lane"] == slo.lane]
    cohort = due[due["scheduled_s"].between(start_s, end_s, inclusive="left")]
    load = offered[offered["lane"].isin(scaled)] if scaled else offered
    finished = (load["status"] == "ok") & load["finished_s"].between(start_s, end_s)
    known = cohort["preemptions"].dropna()
    return Step(
        plan=plan,
        latency_s=_values(cohort, slo.metric),
        queue_wait_s=_values(cohort, "queue_wait"),
        tpot_s=METRICS["tpot"].of(cohort[cohort["status"] == "ok"]).dropna().to_numpy(float),
        e2e_s=_values(cohort, "e2e"),
        completed_rps=float(finished.sum()) / plan.measure_s,
        rejected=int((cohort["status"] == "rejected").sum()),
        preemptions=int(known.sum()) if len(known) else None,
        stability=_stability(due, plan),
        overloaded=not plan.cut and _stability(load, plan) == "unstable",
        use=_use(facts, start_s, end_s),
        running=_mean(facts.server, ServerMetric.REQUESTS_RUNNING, start_s, end_s),
        most_running=_most_running(facts.server),
        in_system=_in_system(facts.server, start_s, end_s),
        littles_law=_littles_law(offered, start_s, end_s),
        valid=(facts.manifest.validity or {}).get("valid") is not False,
    )


def _values(cohort: pd.DataFrame, metric: str) -> Floats:
    """Infinite without an answer; empty where no answer tells it.

    An answer cut by the early end of its run counts with what it had shown by then.
    """
    values = METRICS[metric].of(cohort).to_numpy(float)
    answered = (cohort["status"] == "ok").to_numpy(bool)
    cut = (cohort["status"] == "cancelled").to_numpy(bool)
    told = (answered | cut) & ~np.isnan(values)
    if answered.any() and not told.any():
        return np.empty(0)
    found: Floats = np.where(told, values, np.inf)[told | ~answered]
    return found


def _stability(load: pd.DataFrame, plan: StepPlan) -> Stability:
    """From the requests that were due and had no first token yet, once a second."""
    start_s, end_s = plan.warm_s, plan.warm_s + plan.measure_s
    rate_rps = int(load["scheduled_s"].between(start_s, end_s).sum()) / plan.measure_s
    grid_s = np.arange(start_s, end_s + 0.5)
    due_s = np.sort(load["scheduled_s"].to_numpy(float))
    served_s = load["first_token_s"].fillna(load["finished_s"]).fillna(np.inf).to_numpy(float)
    waiting = np.searchsorted(due_s, grid_s, "right") - np.searchsorted(
        np.sort(served_s), grid_s, "right"
    )
    return stability(waiting.astype(float).tolist(), rate_rps)


def _most_running(server: pd.DataFrame) -> float | None:
    running = samples.gauge(server, ServerMetric.REQUESTS_RUNNING).dropna()
    return float(running.max()) if len(running) else None


def with_seen_slots(steps: Sequence[Step]) -> list[Step]:
    """Where the server does not tell its slots, they are the most that ran at once while overloaded."""
    seen = [step.most_running for step in steps if step.overloaded and step.most_running]
    if not seen or any(step.use.slots is not None for step in steps):
        return list(steps)
    slots = max(seen)
    return [
        step
        if step.running is None
        else replace(step, use=replace(step.use, slots=min(1.0, step.running / slots)))
        for step in steps
    ]


def _in_system(server: pd.DataFrame, start_s: float, end_s: float) -> float | None:
    running = _mean(server, ServerMetric.REQUESTS_RUNNING, start_s, end_s)
    waiting = _mean(server, ServerMetric.REQUESTS_WAITING, start_s, end_s)
    return None if running is None or waiting is None else running + waiting


def _littles_law(offered: pd.DataFrame, start_s: float, end_s: float) -> float | None:
    came = offered[offered["scheduled_s"].between(start_s, end_s, inclusive="left")]
    if came.empty or came["finished_s"].isna().any():
        return None
    return float((came["finished_s"] - came["scheduled_s"]).sum()) / (end_s - start_s)


def _use(facts: Facts, start_s: float, end_s: float) -> Use:
    server = facts.server
    capacity = facts.manifest.target.get("capacity") or {}
    slots = capacity.get("max_num_seqs") or _last(server, ServerMetric.MAX_NUM_SEQS)
    budget = capacity.get("max_num_batched_tokens")
    running = _mean(server, ServerMetric.REQUESTS_RUNNING, start_s, end_s)
    step_tokens = _mean_step_tokens(server, start_s, end_s)
    return Use(
        slots=running / slots if slots and running is not None else None,
        kv=_mean(server, ServerMetric.KV_USAGE_RATIO, start_s, end_s),
        token_budget=step_tokens / budget if budget and step_tokens is not None else None,
    )


def _mean_step_tokens(server: pd.DataFrame, start_s: float, end_s: float) -> float | None:
    """Tokens that a step computed, on average over the steps of the window."""
    window = server[server["t_s"].between(start_s, end_s)]
    tokens = samples.increase(window, ServerMetric.STEP_TOKENS_SUM)
    steps = samples.increase(window, ServerMetric.STEP_TOKENS_COUNT)
    return tokens / steps if tokens is not None and steps else None


def _mean(server: pd.DataFrame, name: ServerMetric, start_s: float, end_s: float) -> float | None:
    return samples.time_mean(samples.gauge(server, name), start_s, end_s)


def _last(server: pd.DataFrame, name: ServerMetric) -> float | None:
    values = samples.gauge(server, name).dropna()
    return float(values.iloc[-1]) if len(values) else None
