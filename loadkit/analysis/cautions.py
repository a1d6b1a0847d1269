"""Warnings: facts of a run that change how its numbers must be read, without making them worthless."""

from collections.abc import Callable

import pandas as pd

from loadkit.analysis import samples, text
from loadkit.analysis.facts import Facts
from loadkit.analysis.metrics import counted_by_server
from loadkit.analysis.validity import Check
from loadkit.model import ServerMetric

BURST_TOKENS = 16
BURST_SPAN_S = 0.005
BURST_FACTOR = 20
BURST_SHARE = 0.01
PROMPT_ERROR_SHARE = 0.02
_LATE_CLOCK_S = 0.05


def cautions(facts: Facts) -> list[Check]:
    answered = facts.offered[facts.offered["status"] == "ok"]
    found = ((name, find(answered, facts)) for name, find in _FINDERS.items())
    return [Check(name, "warning", told) for name, told in found if told]


def _nothing_answered(answered: pd.DataFrame, facts: Facts) -> str | None:
    if len(answered) or facts.offered.empty:
        return None
    return "not one request was answered in full: there are no latencies to report"


def _burst(answered: pd.DataFrame, _: Facts) -> str | None:
    """A buffering proxy, or a client that reads late: TTFT is then the time of the whole answer."""
    streams = answered[
        answered["first_token_s"].notna() & (answered["output_tokens"] >= BURST_TOKENS)
    ]
    span_s = streams["last_token_s"] - streams["first_token_s"]
    waited_s = streams["last_token_s"] - streams["sent_s"]
    burst = (span_s <= BURST_SPAN_S) & (waited_s >= BURST_FACTOR * span_s) & (waited_s >= 0.05)
    share = float(burst.mean()) if len(streams) else 0.0
    if share < BURST_SHARE:
        return None
    return (
        f"burst delivery: {share:.1%} of the streams with {BURST_TOKENS} or more tokens came whole within "
        f"{BURST_SPAN_S * 1e3:g} ms at their end; their TTFT is not a first token's (a buffering proxy?)"
    )


def _prompt_lengths(answered: pd.DataFrame, _: Facts) -> str | None:
    """The median request; a chat template adds a few tokens to each, which short prompts feel most."""
    ratio = (answered["prompt_tokens"] / answered["prompt_tokens_planned"]).dropna()
    if ratio.empty or abs(ratio.median() - 1) <= PROMPT_ERROR_SHARE:
        return None
    middle, tail = ratio.median() - 1, ratio.quantile(0.99) - 1
    return (
        f"prompts were {middle:+.1%} off the planned length by the server's count (median; p99 "
        f"{tail:+.1%}); {PROMPT_ERROR_SHARE:.0%} is tolerated"
    )


def _output_lengths(answered: pd.DataFrame, _: Facts) -> str | None:
    counted = answered[counted_by_server(answered)]
    short = (counted["output_tokens"] < counted["output_tokens_planned"]) & counted[
        "output_tokens_planned"
    ].notna()
    if not len(counted) or short.mean() <= PROMPT_ERROR_SHARE:
        return None
    return (
        f"{short.mean():.1%} of the answers are shorter than planned: the engine ended them itself"
    )


def _no_usage(answered: pd.DataFrame, _: Facts) -> str | None:
    silent = int((~counted_by_server(answered)).sum())
    if not silent:
        return None
    return f"{silent} answers came without the server's token count: TPOT and token totals leave them out"


def _mixed_sources(answered: pd.DataFrame, _: Facts) -> str | None:
    sources = answered["queue_wait_source"].value_counts()
    if "estimated" in sources:
        return (
            f"{sources['estimated']} queue waits are estimates (TTFT - unloaded TTFT), not measured"
        )
    if len(sources) > 1:
        listed = ", ".join(f"{n} {source}" for source, n in sources.items())
        return f"queue waits come from several sources ({listed}); quantiles cover the commonest"
    return None


def _cut_answers(_: pd.DataFrame, facts: Facts) -> str | None:
    cut = int(facts.offered["status"].isin(("truncated", "stream_error")).sum())
    return (
        f"{cut} answers broke off; their latencies are kept out of the quantiles" if cut else None
    )


def _malformed(_: pd.DataFrame, facts: Facts) -> str | None:
    events = int(facts.attempts["malformed_events"].sum())
    return f"{events} stream events could not be read and were skipped" if events else None


def _retried(_: pd.DataFrame, facts: Facts) -> str | None:
    again = int((facts.attempts["attempt"] > 0).sum())
    return (
        f"{again} attempts were retries; latencies count from the first due instant"
        if again
        else None
    )


def _no_metrics(_: pd.DataFrame, facts: Facts) -> str | None:
    if facts.server.empty:
        return "the target told no metrics: nothing confirms its side of the numbers"
    told = samples.of(facts.server, ServerMetric.SCRAPE_OK)
    failed = int((told["value"] == 0).sum())
    return (
        f"{failed} of {len(told)} metric scrapes failed; charts show the gaps" if failed else None
    )


def _no_worker_samples(_: pd.DataFrame, facts: Facts) -> str | None:
    return "the workers' CPU was not recorded" if facts.workers.empty else None


def _emulator_late(_: pd.DataFrame, facts: Facts) -> str | None:
    """A stall between two scrapes shows in the largest lateness alone, which never falls again."""
    told = samples.of(facts.server, ServerMetric.CLOCK_LATENESS_MAX_S).sort_values("t_s")
    largest = told.groupby("target")["value"].agg(["first", "last"])
    rose = largest.loc[largest["last"] > largest["first"], "last"]
    seen = samples.of(facts.server, ServerMetric.CLOCK_LATENESS_S)["value"]
    peak_s = max((float(value) for value in (*rose, *seen)), default=0.0)
    if peak_s <= _LATE_CLOCK_S:
        return None
    return (
        f"the emulator fell behind its own clock, by {text.seconds(peak_s)} at the worst (bound "
        f"{text.seconds(_LATE_CLOCK_S)}): it was short of CPU"
    )


_FINDERS: dict[str, Callable[[pd.DataFrame, Facts], str | None]] = {
    "answers": _nothing_answered,
    "burst delivery": _burst,
    "prompt lengths": _prompt_lengths,
    "output lengths": _output_lengths,
    "token counts": _no_usage,
    "queue wait sources": _mixed_sources,
    "broken answers": _cut_answers,
    "stream events": _malformed,
    "retries": _retried,
    "target metrics": _no_metrics,
    "worker metrics": _no_worker_samples,
    "emulator clock": _emulator_late,
}
