"""Every word of the report with its definition; the metrics' own come from `METRICS`."""

from loadkit.analysis import METRICS
from loadkit.report import numbers

_SHOWN = ("ttft", "send_lag", "queue_wait", "prefill", "tpot", "itl", "stall", "e2e")

_SOURCES = (
    "response: the engine told it with the answer. otel: from its traces. gateway: from a gateway before "
    "it. estimated: TTFT minus the unloaded TTFT of that prompt length."
)
_PREEMPTION = (
    "The engine took memory from a running request, which later starts again or computes again what it "
    "lost; the client sees a stall."
)
_LITTLE = (
    "Mean number in the system = arrival rate \N{MULTIPLICATION SIGN} mean time in the system. A gap between "
    "the client's and the server's number is work that one of them does not see."
)
_NEAREST_RANK = (
    "Nearest rank: the smallest observed value that at least this share does not exceed."
)

TERMS: tuple[tuple[str, str], ...] = (
    *((METRICS[n].title, f"{METRICS[n].formula}. {METRICS[n].meaning}") for n in _SHOWN),
    (
        "offered",
        "Every request that was due, whatever became of it: the denominator of every share.",
    ),
    ("rate", "Offered requests / time over which requests were due."),
    ("ok", "The whole answer came. Nothing else enters the latencies."),
    ("goodput", "Requests within the threshold of every SLO of their lane / offered."),
    ("in time", "Requests that ended ok by their deadline, of those with one that can be judged."),
    ("p50, p90, p99", _NEAREST_RANK),
    ("queue wait source", _SOURCES),
    ("preemption", _PREEMPTION),
    ("Little's law", _LITTLE),
    (numbers.UNKNOWN, "Unknown or undefined. It never means 0."),
)
