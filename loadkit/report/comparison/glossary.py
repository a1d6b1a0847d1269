"""How to read a comparison: the method and the words, those of the metrics from `METRICS`."""

from loadkit.analysis import METRICS
from loadkit.analysis.comparison import MIN_PAIRS, Comparison

_CHANGE = (
    "Of the second against the first: the mean over pairs of runs, as a ratio, in points of a share, or in "
    "the unit of the number where some value is 0. A pair are the n-th runs of both labels."
)
_INTERVAL = (
    "95% t interval over the pairs of runs, each number by itself. The run is the unit: all requests of one "
    "run share its luck, so intervals over requests would find differences where there are none."
)
_EXACT = "Simulated runs on identical arrivals hold no chance: the change is exact for this trace."
_BETTER = (
    "The change is shown by the pairs, also when all numbers of the lane are looked at together (Holm, 5%), "
    "and it is not too small to matter."
)
_NO_DIFFERENCE = (
    "The 90% interval lies within the margin: 5% for medians, for the same request and for items/h, 10% for "
    "tails and preemptions, 1% of the number done, 1 point of a share."
)
_INCONCLUSIVE = (
    f"Neither of these. Fewer than {MIN_PAIRS} pairs of live runs are always inconclusive: nobody can know "
    "how much such runs differ by themselves."
)
_NOT_JUDGED = (
    "Neither more nor less of it is better; or it speaks of fewer requests on the side that it favours (by "
    "more than 1 point of those offered), and what never started or ended is the slow part."
)
_SAME_REQUEST = (
    "The mean change of a request from one run to the other, over those that have it in both."
)
_ITEMS = (
    "Requests answered in full / the time in which the lane had work, from its first due instant."
)
_FRONT = (
    "Those that no other matches in both the tail and the batch work done and beats in one of them."
)
_WAIT = (
    "Of every request that the engine began to serve, however it ended. Refused ones have no wait; they "
    "lower the number done, the goodput, and miss SLOs."
)


def terms(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    shown = dict.fromkeys(d.measure.metric for d in comparison.differences)
    metrics = [METRICS[name] for name in shown if name in METRICS and name != "queue_wait"]
    sure = [("exact", _EXACT)] if comparison.exact else [("95 % interval", _INTERVAL)]
    if not comparison.exact:
        sure += [("better, worse", _BETTER), ("no difference shown", _NO_DIFFERENCE)]
        sure += [("inconclusive", _INCONCLUSIVE)]
    return (
        ("change", _CHANGE),
        *sure,
        ("not judged", _NOT_JUDGED),
        ("invalid", "A run that may not be believed, or a number that only one side knows."),
        ("same request", _SAME_REQUEST),
        ("Pareto front", _FRONT),
        ("items/h", _ITEMS),
        ("queue wait", f"{METRICS['queue_wait'].formula}. {_WAIT}"),
        *((metric.title, f"{metric.formula}. {metric.meaning}") for metric in metrics),
    )
