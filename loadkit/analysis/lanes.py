"""What one lane, or one tenant of a lane, was offered and what it got."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis.facts import Facts
from loadkit.analysis.metrics import METRICS
from loadkit.analysis.quantiles import Quantiles, quantiles
from loadkit.analysis.slo import goodput_share, metric_values, slos_of
from loadkit.model import INTERACTIVE

MOST_TENANTS = 20


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """Counts and quantiles of one lane (or one tenant in it).

    Latencies cover `ok` requests only: a truncated answer is no fast answer. Everything else is
    counted in `statuses`, and every share is over `offered`.
    """

    lane: str
    tenant: str | None
    offered: int
    completed: int
    """Requests with status ok."""
    statuses: Mapping[str, int]
    retries: int
    """Attempts beyond each request's first."""
    offered_rps: float | None
    """Over the time in which requests were due."""
    completed_rps: float | None
    """Over the whole run, the drain included."""
    goodput_share: float | None
    deadlines: int
    """Requests that have one and were not cut, by the end of the run, before it."""
    deadline_share: float | None
    """Finished ok by their deadline / `deadlines`."""
    latencies: Mapping[str, Quantiles]
    """By the names of `METRICS`."""
    failed_ttft: Quantiles
    """TTFT of requests that began to answer and did not end ok."""
    queue_wait_source: str | None
    queue_wait_sources: Mapping[str, int]
    prompt_tokens: int | None
    output_tokens: int | None
    preemptions: int | None
    """Told per request by the engine; None where it does not."""
    time_parts: Mapping[str, float]
    """Mean seconds of an ok request's life, first to last; see `time_parts`."""


def lanes(facts: Facts) -> list[LaneSummary]:
    """One summary per lane, interactive first, then by name."""
    names = sorted(facts.offered["lane"].unique(), key=_place)
    return [_summarise(facts, name, None) for name in names]


def tenants(facts: Facts) -> list[LaneSummary]:
    """The largest tenants, at most `MOST_TENANTS`: lanes as above, largest tenant first in each."""
    counts = (
        facts.offered.groupby(["lane", "tenant"])
        .size()
        .nlargest(MOST_TENANTS)
        .reset_index(name="n")
    )
    keys = [(str(lane), -int(n), str(tenant)) for lane, tenant, n in counts.itertuples(index=False)]
    return [
        _summarise(facts, lane, tenant)
        for lane, _, tenant in sorted(keys, key=lambda key: (_place(key[0]), key))
    ]


def _place(lane: str) -> tuple[bool, str]:
    return lane != INTERACTIVE, lane


def _summarise(facts: Facts, lane: str, tenant: str | None) -> LaneSummary:
    chosen = facts.offered["lane"] == lane
    if tenant is not None:
        chosen = chosen & (facts.offered["tenant"] == tenant)
    offered = facts.offered[chosen]
    ok = offered["status"] == "ok"
    answered = offered[ok]
    sources = answered["queue_wait_source"].value_counts()
    with_deadline = decided(offered, facts.end_s)
    in_time = ok & (offered["finished_s"] <= offered["deadline_s"])
    completed = int(ok.sum())
    return LaneSummary(
        lane=lane,
        tenant=tenant,
        offered=len(offered),
        completed=completed,
        statuses={str(k): int(v) for k, v in offered["status"].value_counts().items()},
        retries=_retries(facts, lane, tenant),
        offered_rps=_per_s(len(offered), facts.due_span_s),
        completed_rps=_per_s(completed, facts.end_s),
        goodput_share=goodput_share(
            offered, [s for s in slos_of(facts.manifest.slos) if s.lane == lane]
        ),
        deadlines=int(with_deadline.sum()),
        deadline_share=float(in_time[with_deadline].mean()) if with_deadline.any() else None,
        latencies=_latencies(facts, (chosen & (facts.offered["status"] == "ok")).to_numpy(bool)),
        failed_ttft=quantiles(METRICS["ttft"].of(offered[~ok]).to_numpy(float)),
        queue_wait_source=str(sources.index[0]) if len(sources) else None,
        queue_wait_sources={str(k): int(v) for k, v in sources.items()},
        prompt_tokens=total(answered["prompt_tokens"]),
        output_tokens=total(METRICS["output_tokens"].of(answered)),
        preemptions=total(offered["preemptions"]),
        time_parts=time_parts(answered),
    )


def decided(offered: pd.DataFrame, end_s: float) -> pd.Series:
    """Requests whose deadline was met or missed; of one cut before its deadline nobody can tell."""
    cut = (offered["status"] == "cancelled") | offered["missing"]
    return offered["deadline_s"].notna() & ~(cut & (offered["deadline_s"] > end_s))


def _latencies(facts: Facts, rows: NDArray[np.bool_]) -> dict[str, Quantiles]:
    """Queue waits of unlike sources are never mixed: the commonest source alone is summarised."""
    values = {name: quantiles(metric_values(facts, name, rows)) for name in METRICS}
    answered = facts.offered[rows]
    sources = answered["queue_wait_source"].value_counts()
    if len(sources) > 1:
        same = answered["queue_wait_source"] == sources.index[0]
        values["queue_wait"] = quantiles(answered["queue_wait_s"][same].to_numpy(float))
    return values


def time_parts(answered: pd.DataFrame) -> dict[str, float]:
    """Mean seconds by part, adding up to the mean E2E of the requests where every part is known.

    `queue wait` and `prefill` appear where the engine told them; otherwise they are one part together
    with the network, `to first token`.
    """
    lag, decode = METRICS["send_lag"].of(answered), METRICS["decode"].of(answered)
    to_first = METRICS["ttft_sent"].of(answered)
    tail = answered["finished_s"] - answered["last_token_s"]
    told = answered["queue_wait_s"] + answered["prefill_s"]
    ours = {"send lag": lag, "connect": answered["connect_s"].fillna(0.0)}
    parts = {**ours, "to first token": to_first, "decode": decode, "end of stream": tail}
    if told.notna().any():
        parts = {
            **ours,
            "queue wait": answered["queue_wait_s"],
            "prefill": answered["prefill_s"],
            "network and rest": to_first - told,
            "decode": decode,
            "end of stream": tail,
        }
    known = pd.DataFrame(parts).dropna()
    return {str(name): float(mean) for name, mean in known.mean().items()} if len(known) else {}


def _retries(facts: Facts, lane: str, tenant: str | None) -> int:
    again = facts.attempts[(facts.attempts["attempt"] > 0) & (facts.attempts["lane"] == lane)]
    return len(again if tenant is None else again[again["tenant"] == tenant])


def _per_s(count: int, span_s: float) -> float | None:
    return count / span_s if span_s > 0 else None


def total(column: pd.Series) -> int | None:
    """Sum of what is known; None when nothing is."""
    return int(column.sum()) if column.notna().any() else None
