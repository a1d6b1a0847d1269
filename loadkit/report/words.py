"""The answer in plain words, put together from the facts: what a reader who was not there needs first."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from loadkit.analysis import LaneSummary, RunSummary, slo_text
from loadkit.report import numbers

_MOST_LANES = 4
_MOST_EVENTS = 20
_LONGEST_EVENT = 300
_FATES = {True: "was met", False: "was not met", None: "cannot be told to be met or not"}
_PARTS = {
    "queue wait": "waiting in the queue",
    "prefill": "in prefill",
    "to first token": "before the first token",
    "decode": "in decode",
    "send lag": "because the client was late",
    "connect": "in opening connections",
}


def verdict(summary: RunSummary) -> str:
    return "VALID" if summary.validity.valid else "INVALID"


def answer(summary: RunSummary) -> list[str]:
    """Short paragraphs: the whole, each lane, what else a reader must know. Only what is known is said."""
    if not summary.offered:
        return ["Not one request was offered, so there is nothing to report."]
    whole = (
        _distrust(summary),
        _delivered(summary),
        _unstreamed(summary),
        _failures(summary),
        _slos(summary),
    )
    lanes = [(_speed(lane), _where(lane), _good(lane)) for lane in summary.lanes[:_MOST_LANES]]
    hidden = len(summary.lanes) - len(lanes)
    more = (f"The table tells of {hidden} more lanes.",) if hidden else ()
    paragraphs = [whole, *lanes, more, (_server(summary),)]
    return [text for parts in paragraphs if (text := " ".join(part for part in parts if part))]


def _distrust(summary: RunSummary) -> str:
    if summary.validity.valid:
        return ""
    return (
        "The run is invalid: what follows describes what was recorded, not what the server can do."
    )


def _delivered(summary: RunSummary) -> str:
    whole = numbers.share(summary.completed / summary.offered)
    rps = summary.offered / summary.due_span_s if summary.due_span_s else None
    return (
        f"{numbers.count(summary.offered)} requests were offered over {numbers.seconds(summary.due_span_s)} "
        f"({numbers.rate(rps)} on average); {whole} were answered in full."
    )


def _unstreamed(summary: RunSummary) -> str:
    if summary.manifest.target.get("stream") is not False:
        return ""
    return f"Answers were not streamed, so there are no token times: TTFT and TPOT are {numbers.UNKNOWN}."


def _speed(lane: LaneSummary) -> str:
    ttft, e2e = lane.latencies["ttft"], lane.latencies["e2e"]
    if not ttft.n:
        done = f"half within {numbers.seconds(e2e.p50)}" if e2e.n else "none"
        return f"Of {lane.lane}, {numbers.count(lane.completed)} requests ended ok, {done}."
    return (
        f"In {lane.lane}, half of the answers began within {numbers.seconds(ttft.p50)} and 99 of 100 "
        f"within {numbers.seconds(ttft.p99)} of when they were due; 99 of 100 were complete within "
        f"{numbers.seconds(e2e.p99)}."
    )


def _where(lane: LaneSummary) -> str:
    """Only what is worth a sentence: the largest part, when it is half of the whole or more."""
    whole_s = sum(lane.time_parts.values())
    name = max(lane.time_parts, key=lambda n: lane.time_parts[n], default="")
    if not whole_s or name not in _PARTS or lane.time_parts[name] < whole_s / 2:
        return ""
    part = numbers.share(lane.time_parts[name] / whole_s)
    return f"On average {part} of its {numbers.seconds(whole_s)} went {_PARTS[name]}."


def _good(lane: LaneSummary) -> str:
    said = []
    if lane.goodput_share is not None:
        said.append(
            f"{numbers.share(lane.goodput_share)} of what was offered met every SLO of the lane"
        )
    if lane.deadline_share is not None:
        said.append(f"{numbers.share(lane.deadline_share)} was done by its deadline")
    return _sentence("; ".join(said))


def _failures(summary: RunSummary) -> str:
    counts: dict[str, int] = {}
    for lane in summary.lanes:
        for status, n in lane.statuses.items():
            counts[status] = counts.get(status, 0) + n
    bad = [f"{numbers.count(n)} {status}" for status, n in sorted(counts.items()) if status != "ok"]
    return f"Not answered in full: {', '.join(bad)}." if bad else ""


def _slos(summary: RunSummary) -> str:
    if not summary.slos:
        return ""
    if len(summary.slos) == 1:
        return f"The SLO ({slo_text(summary.slos[0].slo)}) {_FATES[summary.slos[0].met]}."
    met = sum(result.met is True for result in summary.slos)
    unknown = sum(result.met is None for result in summary.slos)
    rest = f"; of {unknown} it cannot be told" if unknown else ""
    return f"{met} of {len(summary.slos)} SLOs {'was' if met == 1 else 'were'} met{rest}."


def _server(summary: RunSummary) -> str:
    server, preempted = summary.server, summary.preemptions.total
    said = []
    if server.waiting_peak is not None:
        said.append(
            f"at most {numbers.count(server.waiting_peak)} requests waited in the server at any "
            "one-second sample"
        )
    if server.kv_usage_peak_ratio is not None:
        said.append(f"KV cache use peaked at {numbers.share(server.kv_usage_peak_ratio)}")
    if preempted is not None:
        said.append(
            f"the engine preempted {numbers.count(preempted)} times"
            if preempted
            else "nothing was preempted"
        )
    return _sentence(", ".join(said))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def headline(summary: RunSummary) -> str:
    """The run, the name of its trace without its folder, and what it was replayed against."""
    target = summary.manifest.target
    trace = PurePath(str(summary.manifest.trace.get("source", "a trace"))).name
    served = _joined(target, "engine", "version") or "a target"
    return (
        f"{summary.path.name}: {trace} against {served} at {target.get('url', 'an unknown place')}"
    )


def littles_law(summary: RunSummary) -> str:
    """One sentence; empty where there was too little to check."""
    law = summary.littles_law
    if law is None:
        return ""
    return (
        f"Little's law over the {law.window}: {numbers.level(law.product)} in the system by rate and time, "
        f"{numbers.level(law.in_flight_mean)} counted by the client, "
        f"{numbers.level(law.server_mean)} by the server; {law.verdict}."
    )


def events(summary: RunSummary) -> list[str]:
    """What the run noted while it ran, with its instant; the last line counts what is left out."""
    told = summary.manifest.events
    lines = [
        f"{numbers.instant(event.get('t_s'))}: {str(event.get('what', ''))[:_LONGEST_EVENT]}"
        for event in told[:_MOST_EVENTS]
    ]
    hidden = len(told) - len(lines)
    return [*lines, f"and {hidden} more, in run.json"] if hidden else lines


def what_ran(summary: RunSummary) -> list[tuple[str, str]]:
    """(name, value) pairs of the manifest that a reader needs to know what this was."""
    manifest = summary.manifest
    target = manifest.target
    pairs = (
        ("Trace", _joined(manifest.trace, "source", "format")),
        ("Replayed", transforms_text(manifest.transforms)),
        ("Target", _joined(target, "url", "api")),
        ("Model", str(target.get("model") or numbers.UNKNOWN)),
        (
            "Engine",
            " ".join(str(target[k]) for k in ("engine", "version") if target.get(k)) or "unknown",
        ),
        (
            "Streaming",
            "not streamed: no token times" if target.get("stream") is False else "",
        ),
        ("Capacity", _mapping(target.get("capacity"))),
        (
            "Duration",
            f"{numbers.seconds(summary.end_s)}, requests due over {numbers.seconds(summary.due_span_s)}",
        ),
        ("Started", manifest.created_utc),
        ("Workers", f"{manifest.workers}, seed {manifest.seed}"),
        ("Ended", f"{manifest.state}: {manifest.ended_why or 'nobody ended it'}"),
    )
    return [(name, value) for name, value in pairs if value]


def _joined(facts: Mapping[str, Any], *keys: str) -> str:
    return ", ".join(str(facts[key]) for key in keys if facts.get(key))


def transforms_text(transforms: Mapping[str, Any]) -> str:
    said = [_transform(name, value) for name, value in transforms.items()]
    return ", ".join(text for text in said if text) or "as recorded"


def _transform(name: str, value: object) -> str:
    """Only what changed the trace; `window_s: [0, 300]` → `window 0 s to 300 s`."""
    if value is None or value in ([], (), {}) or value == 1:
        return ""
    if name.endswith("_s") and isinstance(value, list | tuple):
        return f"{name.removesuffix('_s')} {' to '.join(f'{edge:g} s' for edge in value)}"
    if isinstance(value, list | tuple):
        return f"{name} {', '.join(map(str, value))}"
    return f"{name} {value:g}x" if isinstance(value, float) else f"{name} {value}"


def _mapping(values: object) -> str:
    if not isinstance(values, Mapping):
        return ""
    return ", ".join(f"{key} {_plain(value)}" for key, value in values.items() if value is not None)


def _plain(value: object) -> str:
    """16.0 → `16`: JSON knows one kind of number."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
