"""What a reader of a search should know before believing it."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadkit.analysis.knee.result import KneeResult

INVALID_STEPS = "two steps in a row were invalid"
"""`ended_why` of a search that could not go on begins with it."""
_WIDE = 1.15
_CLOSE = 1.10
_FEWEST_CLOSE = 4
_FEWEST_REQUESTS = 100


def cautions(result: "KneeResult") -> list[str]:
    """In plain words, the gravest first."""
    checks = (
        _invalid,
        _ended,
        _soak,
        _alone,
        _wide,
        _close,
        _few,
        _baseline,
        _queue_wait,
        _beyond,
        _background,
    )
    return [text for check in checks if (text := check(result))]


def _invalid(result: "KneeResult") -> str:
    count = sum(not step.valid for step in result.steps)
    steps = "1 step is" if count == 1 else f"{count} steps are"
    return f"{steps} invalid and left out: their own reports say why" * bool(count)


def _soak(result: "KneeResult") -> str:
    if not result.lacks_soak or result.findings.capacity.rps is None:
        return ""
    return "the soak that was asked for was not made, or was invalid: nothing has confirmed the capacity"


def _alone(result: "KneeResult") -> str:
    alone = result.alone
    if alone is None or alone.ended_why == "all steps are done":
        return ""
    return f"the search without the other lanes: {alone.ended_why or 'not finished'}"


def _ended(result: "KneeResult") -> str:
    if result.ended_why in (None, "all steps are done"):
        return ""
    return f"the search ended early: {result.ended_why}"


def _wide(result: "KneeResult") -> str:
    found = result.findings.capacity
    if not (found.rps and found.low_rps and found.high_rps):
        return ""
    ratio = math.sqrt(found.high_rps / found.low_rps)
    if ratio <= _WIDE:
        return ""
    return (
        f"the capacity is known to ±{(ratio - 1) * 100:.0f} % only: a small server or bursty arrivals; "
        "more --samples or a longer --measure narrow it"
    )


def _close(result: "KneeResult") -> str:
    found = result.findings.capacity
    if found.rps is None:
        return ""
    close = [
        step
        for step in result.steps
        if step.valid and 1 / _CLOSE <= step.plan.rate_rps / found.rps <= _CLOSE
    ]
    if len(close) >= _FEWEST_CLOSE:
        return ""
    return f"only {len(close)} steps lie within 10 % of the capacity"


def _few(result: "KneeResult") -> str:
    counts = [len(step.latency_s) for step in result.steps if step.valid and len(step.latency_s)]
    if not counts or min(counts) >= _FEWEST_REQUESTS:
        return ""
    return f"a step holds as few as {min(counts)} requests: its p99 is its largest values"


def _baseline(result: "KneeResult") -> str:
    base = result.findings.baseline
    if base is None or not base.is_vague:
        return ""
    return (
        f"the baseline is known to no better than 10 % ({base.requests} requests): trust the capacity at "
        "the SLO more than the turn-up"
    )


def _queue_wait(result: "KneeResult") -> str:
    told = any(len(step.queue_wait_s) for step in result.steps)
    return (
        "" if told or not result.steps else "queue wait is not known: the target does not tell it"
    )


def _beyond(result: "KneeResult") -> str:
    use = result.findings.capacity.utilisation
    if use is None or use[0] <= 1:
        return ""
    return (
        "the SLO holds beyond the saturation: the policy spares this lane, and what is left behind is in "
        "other lanes"
    )


def _background(result: "KneeResult") -> str:
    scaled = result.asked.get("scaled")
    if not scaled:
        return ""
    return (
        f"only {', '.join(scaled)} was scaled; the others came as recorded, so the capacity holds for "
        "that background and no other"
    )
