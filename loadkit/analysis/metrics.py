"""Every per-request metric, declared once: name, unit, direction, formula, expression.

Reports, checks and comparisons take a metric from `METRICS`; none computes its own. An expression
reads the frame of `facts.Facts.offered` and yields NaN wherever an instant or a count is unknown.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import pandas as pd

Frame = pd.DataFrame
Column = pd.Series


class Metric(NamedTuple):
    name: str
    title: str
    unit: Literal["s", "tokens"]
    better: Literal["lower", "higher", "neither"]
    formula: str
    meaning: str
    of: Callable[[Frame], Column]
    pooled: bool = False
    """Quantiles run over every chunk gap of all requests; `of` gives the mean gap of each request."""


def counted_by_server(r: Frame) -> Column:
    """Mask of the rows whose output tokens are the server's own count."""
    return r["token_source"].eq("usage")


def _ttft(r: Frame) -> Column:
    return r["first_token_s"] - r["scheduled_s"]


def _ttft_sent(r: Frame) -> Column:
    return r["first_token_s"] - r["sent_s"]


def _send_lag(r: Frame) -> Column:
    """A retry is late on purpose, so only first attempts tell. A slow accept is the server's doing."""
    late_s = r["sent_s"] - r["scheduled_s"] - r["connect_s"].fillna(0.0)
    return late_s.clip(lower=0.0).where(r["attempt"] == 0)


def _tpot(r: Frame) -> Column:
    """Only over the server's own count: a chunk may hold several tokens, so chunks give another figure."""
    known = counted_by_server(r) & (r["output_tokens"] >= 2)
    return ((r["last_token_s"] - r["first_token_s"]) / (r["output_tokens"] - 1)).where(known)


def _mean_gap(r: Frame) -> Column:
    return (r["chunks_span_s"] / (r["chunks"] - 1)).where(r["chunks"] >= 2)


def _e2e(r: Frame) -> Column:
    return r["finished_s"] - r["scheduled_s"]


def _decode(r: Frame) -> Column:
    return r["last_token_s"] - r["first_token_s"]


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "ttft", "TTFT", "s", "lower",
            "first generated content - scheduled instant",
            "Time to first token as a user would feel it: it starts when the request was due, so a "
            "stalled server, or a late client, cannot hide.",
            _ttft,
        ),
        Metric(
            "ttft_sent", "TTFT from sent", "s", "lower",
            "first generated content - first byte handed to the socket",
            "The same without what the client was late.",
            _ttft_sent,
        ),
        Metric(
            "send_lag", "send lag", "s", "lower",
            "sent - scheduled - time to open a connection for it",
            "How late the load generator itself was. Large values make a run invalid.",
            _send_lag,
        ),
        Metric(
            "queue_wait", "queue wait", "s", "lower",
            "first scheduled in the engine - arrival at the engine",
            "Waiting before the engine first worked on the request. Excludes client lag, network and "
            "time spent preempted. Always shown with its source.",
            lambda r: r["queue_wait_s"],
        ),
        Metric(
            "prefill", "prefill", "s", "lower",
            "first token - first scheduled, told by the engine",
            "Computing the prompt.",
            lambda r: r["prefill_s"],
        ),
        Metric(
            "tpot", "TPOT", "s", "lower",
            "(last token - first token) / (output tokens - 1)",
            "Time per output token of one request, over the server's own token count; unknown below "
            "2 tokens or without that count.",
            _tpot,
        ),
        Metric(
            "itl", "ITL (per chunk)", "s", "lower",
            "gaps between consecutive content chunks, pooled over requests",
            "Inter-chunk latency. A chunk may hold several tokens. A single request is judged by its "
            "mean gap.",
            _mean_gap, pooled=True,
        ),
        Metric(
            "stall", "longest gap", "s", "lower",
            "the longest gap between two content chunks of the request",
            "The longest pause in a stream. One pause among thousands of gaps is in no quantile of the ITL, "
            "and yet everybody who was reading saw it.",
            lambda r: r["longest_gap_s"],
        ),
        Metric(
            "decode", "decode", "s", "lower",
            "last token - first token",
            "Generating after the first token, stalls by preemption included.",
            _decode,
        ),
        Metric(
            "e2e", "E2E", "s", "lower",
            "finished - scheduled instant",
            "The whole request, from when it was due.",
            _e2e,
        ),
        Metric(
            "connect", "connect", "s", "lower",
            "DNS + TCP + TLS",
            "Opening a connection; unknown where an open one was used.",
            lambda r: r["connect_s"],
        ),
        Metric(
            "prompt_tokens", "prompt tokens", "tokens", "neither",
            "usage.prompt_tokens", "The server's count of the prompt.",
            lambda r: r["prompt_tokens"],
        ),
        Metric(
            "output_tokens", "output tokens", "tokens", "neither",
            "usage.completion_tokens", "The server's count of what it generated.",
            lambda r: r["output_tokens"].where(counted_by_server(r)),
        ),
    )
}  # fmt: skip
