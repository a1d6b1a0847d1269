"""The answer in plain words: what load is safe, how much of the server that is, and how sure."""

from typing import Literal, NamedTuple

from loadkit.analysis import METRICS
from loadkit.analysis.knee.cautions import INVALID_STEPS
from loadkit.analysis.knee.findings import TURN_UP, Estimate
from loadkit.analysis.knee.result import KneeResult
from loadkit.report import numbers

_NBSP = "\N{NO-BREAK SPACE}"


class Headline(NamedTuple):
    word: str
    tone: Literal["valid", "open", "invalid"]
    sentence: str


def headline(result: KneeResult) -> Headline:
    """The shortest answer there is."""
    found, soak = result.findings.capacity, result.soak
    safe = f"{rate(found.low_rps)} is safe" if found.low_rps else ""
    if result.ended_why is None:
        return Headline("UNFINISHED", "open", "The same command goes on from here.")
    if result.ended_why.startswith(INVALID_STEPS):
        return Headline("INVALID", "invalid", _sentence(result.ended_why))
    if found.rps is None:
        return _none(found)
    if soak is None:
        return Headline("FOUND", "valid", f"{safe}. No soak has confirmed it.")
    minutes = numbers.seconds(soak[0].plan.measure_s)
    if soak[1] == "CONFIRMED":
        return Headline("CONFIRMED", "valid", f"{safe}: the SLO held there for {minutes}.")
    return Headline("NOT CONFIRMED", "invalid", f"The SLO did not hold for {minutes} there.")


def _none(found: Estimate) -> Headline:
    if found.status == "not reached":
        return Headline("NOT REACHED", "open", "The SLO held at every load that was tried.")
    if found.status == "over at the lowest load":
        return Headline("OVER AT THE LOWEST LOAD", "invalid", "The SLO held at no load tried.")
    return Headline("NOTHING MEASURED", "invalid", "No step of the search can be used.")


def answer(result: KneeResult) -> list[str]:
    """Short paragraphs, the load first."""
    paragraphs = (_capacity, _safe, _bottleneck, _turn_up, _sharing, _horizon)
    return [text for paragraph in paragraphs if (text := paragraph(result))]


def _capacity(result: KneeResult) -> str:
    found, full = result.findings.capacity, result.findings.saturation
    if found.rps is None:
        return _not_found(result)
    text = (
        f"This server takes {rate(found.rps)} ({interval(found)}) of {load(result)} while "
        f"{promise(result)}."
    )
    if found.utilisation is None:
        return (
            f"{text} How much of the server that is cannot be told: its saturation was not reached."
        )
    value, low, high = found.utilisation
    return (
        f"{text} That is {_whole(value)} ({_whole(low)} to {_whole(high)}) of the most that it "
        f"completes, {rate(full.rps)}."
    )


def _not_found(result: KneeResult) -> str:
    found = result.findings.capacity
    rates = [step.plan.rate_rps for step in result.steps if step.valid]
    if not rates:
        return ""
    if found.status == "not reached":
        known = f" It takes at least {rate(found.low_rps)} with 97.5 % certainty." * bool(
            found.low_rps
        )
        return (
            f"Up to {rate(max(rates))} of {load(result)}, {promise(result)}: the capacity lies above "
            f"what was tried, and nothing is said about how far.{known}"
        )
    return (
        f"Already at {rate(min(rates))} of {load(result)} it does not hold that {promise(result)}: the "
        "capacity lies below what was tried, or this server never meets the SLO."
    )


def _safe(result: KneeResult) -> str:
    found = result.findings.capacity
    if not (found.rps and found.low_rps) or headline(result).word in {"INVALID", "UNFINISHED"}:
        return ""
    if result.is_refuted:
        return f"Plan with less than {rate(found.low_rps)}: {_soaked(result)}."
    text = f"Plan with {rate(found.low_rps)} a server, the lower end of the interval."
    return f"{text} {_soaked(result)[:1].upper()}{_soaked(result)[1:]}." if result.soak else text


def _soaked(result: KneeResult) -> str:
    """What the soak showed; there was one."""
    assert result.soak is not None
    step, verdict = result.soak
    share = step.missed(result.slo.threshold_s)
    held = "held" if verdict == "CONFIRMED" else "did not hold"
    missed = f"{numbers.count(share.missed)} of {numbers.count(share.requests)} requests missed it"
    soaked = numbers.seconds(step.plan.measure_s)
    return f"in a soak of {soaked} at that load the SLO {held}: {missed}"


def _bottleneck(result: KneeResult) -> str:
    step = result.nearest_to_capacity
    if step is None or not step.use.told:
        return ""
    parts = ", ".join(f"{name} {_whole(share)}" for name, share in step.use.told.items())
    found = step.use.bottleneck
    named = f"Bottleneck: {found}." if found else "No bottleneck shows in what the server tells."
    return f"{named} Close to that load there are in use, on average: {parts}."


def _turn_up(result: KneeResult) -> str:
    findings = result.findings
    base, turn, wait = findings.baseline, findings.turn_up, findings.queue_turn_up
    if base is None or turn.rps is None:
        return ""
    use = f", at {_whole(turn.utilisation[0])} of the saturation" if turn.utilisation else ""
    text = (
        f"The p99 of {metric(result)} is {TURN_UP:g} times its value without load, "
        f"{numbers.seconds(base.p99_s)}, from {rate(turn.rps)} on ({interval(turn)}){use}."
    )
    if wait.rps is None:
        return text
    return (
        f"{text} From {rate(wait.rps)} on ({interval(wait)}) one request in a hundred waits in the "
        "queue longer than that whole value."
    )


def _sharing(result: KneeResult) -> str:
    cost, alone = result.sharing, result.alone
    if cost is None or alone is None:
        return ""
    bounds = ""
    if cost.bounds:
        bounds = f" (95 %: {_points(cost.bounds[0])} to {_points(cost.bounds[1])})"
    text = (
        f"Alone, without the other lanes, this load reaches {rate(alone.findings.capacity.rps)}: "
    )
    if cost.bounds and cost.bounds[0] < 0 < cost.bounds[1]:
        return f"{text}whether company costs anything cannot be told from these steps{bounds}."
    return f"{text}company costs {_points(cost.cost)} of its capacity{bounds}."


def _horizon(result: KneeResult) -> str:
    steps = [step for step in result.steps if step.valid and step.plan.role != "soak"]
    if not steps:
        return ""
    requests = sum(len(step.latency_s) for step in steps)
    seconds = numbers.seconds(max(step.plan.measure_s for step in steps))
    return (
        f"These are numbers of the long run, estimated from {len(steps)} steps of up to {seconds} with "
        f"{numbers.count(requests)} requests: at the capacity single minutes are better and worse."
    )


def promise(result: KneeResult) -> str:
    """`99 % of interactive requests have a TTFT of at most 500 ms`."""
    slo = result.slo
    return (
        f"{slo.quantile * 100:g} % of {slo.lane} requests have a {metric(result)} of at most "
        f"{numbers.seconds(slo.threshold_s)}"
    )


def load(result: KneeResult) -> str:
    """Which requests the rates count."""
    scaled = result.asked.get("scaled") or ()
    if scaled:
        return f"{', '.join(scaled)} requests, the other lanes coming as recorded,"
    lanes = result.asked.get("lanes") or ()
    return f"{', '.join(lanes)} requests" if lanes else "this workload"


def metric(result: KneeResult) -> str:
    return METRICS[result.slo.metric].title


def rate(value_rps: float | None) -> str:
    return numbers.UNKNOWN if value_rps is None else f"{numbers.level(value_rps)} requests/s"


def interval(found: Estimate) -> str:
    if found.low_rps is None or found.high_rps is None:
        return "no interval"
    return f"95 %: {numbers.level(found.low_rps)} to {numbers.level(found.high_rps)}"


def _whole(share: float) -> str:
    return f"{share * 100:.0f}{_NBSP}%"


def _points(share: float) -> str:
    return _whole(share).replace("-", "\N{MINUS SIGN}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
