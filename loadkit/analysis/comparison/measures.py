"""What is compared: one row of `MEASURES` per number of a lane, with its direction and its margin.

Per-request metrics come from `METRICS`; what stands here beside them are counts, shares and rates of a
lane. A measure is None where the run does not know it.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis.facts import Facts
from loadkit.analysis.lanes import decided, total
from loadkit.analysis.metrics import METRICS
from loadkit.analysis.quantiles import quantile
from loadkit.analysis.slo import goodput_share, metric_values
from loadkit.errors import InputError
from loadkit.model import INTERACTIVE, Slo

Unit = Literal["s", "share", "count", "per_h", "tokens"]
Key = tuple[str, float | None]
"""(metric, quantile); the quantile is None for what has none."""


class Lane(NamedTuple):
    """One lane of one run, as the measures see it."""

    facts: Facts
    rows: NDArray[np.bool_]
    """Over `facts.offered`."""
    offered: pd.DataFrame
    answered: pd.DataFrame
    """Of these, the ones that ended ok."""
    slos: tuple[Slo, ...]
    """Of this lane alone."""
    late_s: float


class Measure(NamedTuple):
    metric: str
    quantile: float | None
    title: str
    unit: Unit
    better: Literal["lower", "higher", "neither"]
    margin: float
    """What counts as no difference: a relative change, or points of a share."""
    of: Callable[[Lane], float | None] | None
    """None = exists only between two runs: the change of the typical request."""
    note: str = ""

    @property
    def key(self) -> Key:
        return self.metric, self.quantile


def covered_share(lane: Lane, measure: Measure) -> float | None:
    """Part of the offered requests that a quantile or `late` speaks of; None for what counts them all.

    Requests that never started or never ended are the slow ones: who covers fewer looks faster.
    """
    if not len(lane.offered) or (measure.quantile is None and measure.metric != "late_share"):
        return None
    of_waits = measure.metric in ("queue_wait", "late_share")
    return len(waits(lane) if of_waits else lane.answered) / len(lane.offered)


def waits(lane: Lane) -> pd.Series:
    """Queue waits of all that the engine began to serve, however it ended; of the commonest source."""
    known = lane.offered[lane.offered["queue_wait_s"].notna()]
    source = wait_source(lane)
    same = known if source is None else known[known["queue_wait_source"] == source]
    return same["queue_wait_s"]


def wait_source(lane: Lane) -> str | None:
    sources = lane.offered["queue_wait_source"].value_counts()
    return str(sources.index[0]) if len(sources) else None


def _quantile_of(metric: str, q: float) -> Callable[[Lane], float | None]:
    def value(lane: Lane) -> float | None:
        if metric == "queue_wait":
            return quantile(waits(lane).to_numpy(float), q)
        return quantile(_known(lane, metric), q)

    return value


def _known(lane: Lane, metric: str) -> NDArray[np.floating]:
    if METRICS[metric].pooled:
        ok = lane.rows & (lane.facts.offered["status"] == "ok").to_numpy(bool)
        return metric_values(lane.facts, metric, ok)
    return METRICS[metric].of(lane.answered).dropna().to_numpy(float)


def _late_share(lane: Lane) -> float | None:
    waited_s = waits(lane)
    return float((waited_s > lane.late_s).mean()) if len(waited_s) else None


def _goodput(lane: Lane) -> float | None:
    return goodput_share(lane.offered, list(lane.slos))


def _in_time(lane: Lane) -> float | None:
    bound = lane.offered[decided(lane.offered, lane.facts.end_s)]
    in_time = (bound["status"] == "ok") & (bound["finished_s"] <= bound["deadline_s"])
    return float(in_time.mean()) if len(bound) else None


def _completed(lane: Lane) -> float | None:
    return float(len(lane.answered))


def _per_hour(lane: Lane) -> float | None:
    """Over the time in which the lane had work: first due instant to the last end, or to the run's.

    None for the interactive lane: people decide how much of that there is, not the server.
    """
    rows, end_s = lane.offered, lane.facts.end_s
    if rows["lane"].eq(INTERACTIVE).any():
        return None
    left = rows["status"].eq("cancelled").any() or rows["missing"].any()
    last_s = end_s if left else float(rows["finished_s"].fillna(rows["scheduled_s"]).max())
    span_s = last_s - float(rows["scheduled_s"].min())
    return (_completed(lane) or 0.0) / span_s * 3600 if span_s > 0 else None


def _total(column: str) -> Callable[[Lane], float | None]:
    def value(lane: Lane) -> float | None:
        found = total(lane.offered[column])
        return None if found is None else float(found)

    return value


def _latency(metric: str, q: float, word: str = "") -> Measure:
    known = METRICS[metric]
    title = f"{known.title.removesuffix(' (per chunk)')} {word or f'p{q * 100:g}'}"
    margin = 0.05 if q <= 0.5 else 0.10
    return Measure(metric, q, title, "s", known.better, margin, _quantile_of(metric, q))


def _typical(metric: str) -> Measure:
    known = METRICS[metric]
    note = "mean change of the same request from one run to the other"
    return Measure(
        metric, None, f"{known.title}, same request", "s", known.better, 0.05, None, note
    )


MEASURES: tuple[Measure, ...] = (
    _latency("queue_wait", 0.5),
    _latency("queue_wait", 0.99),
    _latency("queue_wait", 1.0, "max"),
    _typical("queue_wait"),
    Measure("late_share", None, "late", "share", "lower", 0.01, _late_share,
            "started requests whose queue wait was longer than the bound of --late"),
    _latency("ttft", 0.5),
    _latency("ttft", 0.99),
    _typical("ttft"),
    _latency("prefill", 0.5),
    _latency("prefill", 0.99),
    _latency("tpot", 0.5),
    _latency("itl", 0.99),
    _latency("stall", 0.99),
    _latency("e2e", 0.5),
    _latency("e2e", 0.99),
    _typical("e2e"),
    Measure("completed", None, "done", "count", "higher", 0.01, _completed,
            "requests answered in full; every run was offered the same ones"),
    Measure("completed_per_h", None, "items/h", "per_h", "higher", 0.05, _per_hour,
            "requests answered in full / time in which the lane had work"),
    Measure("goodput_share", None, "goodput", "share", "higher", 0.01, _goodput,
            "requests within every SLO of their lane / offered"),
    Measure("deadline_share", None, "in time", "share", "higher", 0.01, _in_time,
            "ended ok by their deadline / those with one that can be judged"),
    Measure("preemptions", None, "preemptions", "count", "lower", 0.10, _total("preemptions"),
            "evictions of this lane's requests, told with each answer"),
    Measure("recomputed_tokens", None, "recomputed", "tokens", "lower", 0.10,
            _total("recomputed_tokens"), "tokens computed again after an eviction"),
)  # fmt: skip

WHOLE_RUN: tuple[Measure, ...] = (
    Measure("preemptions", None, "preemptions", "count", "lower", 0.10, None,
            "as the server counts them, otherwise summed over the answers"),
    Measure("recomputed_tokens", None, "recomputed", "tokens", "lower", 0.10, None,
            "tokens computed again after an eviction"),
    Measure("slot_use_share", None, "slots in use", "share", "neither", 0.01, None,
            "time mean of running / the most that run at once; full slots are no merit by themselves"),
)  # fmt: skip


def chosen(names: tuple[str, ...]) -> tuple[Measure, ...]:
    """`ttft`, `ttft:p99`, `completed_per_h` → measures; all without names. Raises InputError."""
    if not names:
        return MEASURES
    wanted = [measure for name in names for measure in _named(name)]
    return tuple(measure for measure in MEASURES if measure in wanted)


def _named(name: str) -> list[Measure]:
    metric, _, q = name.partition(":")
    found = [m for m in MEASURES if m.metric == metric and q in ("", _word(m))]
    if found:
        return found
    known = ", ".join(dict.fromkeys(m.metric for m in MEASURES))
    of_it = [_word(m) for m in MEASURES if m.metric == metric and m.quantile is not None]
    hint = f"{metric} has: {', '.join(of_it) or 'no quantiles'}" if q else f"one of: {known}"
    if q and not any(m.metric == metric for m in MEASURES):
        hint = f"one of: {known}"
    raise InputError(f"metric {name!r} is unknown", hint=hint)


def _word(measure: Measure) -> str:
    return "" if measure.quantile is None else measure.title.rpartition(" ")[2]
