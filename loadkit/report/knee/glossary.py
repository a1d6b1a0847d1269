"""The words of a search, defined."""

from loadkit.analysis import METRICS
from loadkit.analysis.knee.findings import BASELINE_LOAD, TURN_UP
from loadkit.analysis.knee.result import KneeResult

_CAPACITY = (
    "The rate at which the SLO is just met in the long run. The primary number: it has a promise in it. "
    "Refused, failed and timed-out requests count as missed."
)
_TURN_UP = (
    f"Where the p99 is {TURN_UP:g} times its baseline. Above it waiting begins to rule the latency; twice "
    "the baseline can come from batching alone."
)
_SATURATION = (
    "What the server completes per second while more is offered than it can do: mean of the steps whose "
    "queue grew all along, Student's t for the interval."
)
_UTILISATION = (
    "Offered rate / saturation of the same load. 100 % cannot be held: the queue would grow without end. "
    "Shares of slots, KV cache and token budget in use are outcomes beside it, not the same thing."
)
_INTERVAL = (
    "From the shares that missed in all valid steps: a logistic curve in the log of the rate, with the "
    "scatter between steps that queues have (compound Poisson-gamma). In 95 of 100 such searches such an "
    "interval holds the true value; simulated servers with known truths confirm at least 90."
)
_BASELINE = f"p99 of all requests in steps below {BASELINE_LOAD:.0%} of the capacity, pooled."
_STEP = (
    "A run of its own on a part of the trace of its own: whole windows laid over one another until they "
    "hold the wanted number of requests. The first seconds only fill the server; requests that arrive in "
    "the measured part are followed to their end."
)
_QUEUE = (
    "stable, marginal or unstable: whether the number waiting kept growing within the step (slope with an "
    "error that allows for autocorrelation, and more than two seconds of arrivals left waiting)."
)
_LITTLE = (
    "L = λ·W: requests in the system = arrival rate × mean time in it. It holds for every server that is "
    "not overloaded, so the two curves must meet; where they part, something is counted wrongly or the "
    "queue was growing."
)


def terms(result: KneeResult) -> tuple[tuple[str, str], ...]:
    metric = METRICS[result.slo.metric]
    return (
        ("capacity at the SLO", _CAPACITY),
        ("turn-up", _TURN_UP),
        ("saturation", _SATURATION),
        ("utilisation ρ", _UTILISATION),
        ("95 % interval", _INTERVAL),
        ("without load", _BASELINE),
        ("step", _STEP),
        ("queue", _QUEUE),
        ("Little's law", _LITTLE),
        (metric.title, f"{metric.formula}. {metric.meaning}"),
    )
