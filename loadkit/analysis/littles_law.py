"""Little's law, L = λ·W, as a check of the measurement itself.

A run that begins and ends empty is judged whole: there the law holds exactly, so the workers' own
samples of what was in flight must agree with the rows within the error of sampling. Any other run is
judged over a window in its middle, L integrated from the rows; there the law holds when the run was
steady. The server's own running + waiting is the independent witness of both.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import pandas as pd

from loadkit.analysis import samples
from loadkit.analysis.facts import Facts
from loadkit.model import ServerMetric

_SKIPPED_SHARE = 0.1
"""Of the sending time, left out at its start while the system fills."""
_FEWEST = 30
_AGREES = 0.1
_FEWEST_SAMPLES = 10
_STANDARD_ERRORS = 3


class _Window(NamedTuple):
    start_s: float
    end_s: float
    whole: bool


@dataclass(frozen=True, slots=True)
class LittlesLaw:
    start_s: float
    end_s: float
    window: Literal["whole run", "steady part"]
    in_flight_mean: float
    """The client's own count: see `in_flight_source`."""
    in_flight_source: Literal["samples", "records"]
    """`samples`: time-mean of what the workers sampled. `records`: integral of the rows / length."""
    arrival_rps: float
    sojourn_mean_s: float
    """Sent to finished, of the requests sent in the window."""
    product: float
    difference_share: float
    """(λ·W - L) / L."""
    server_mean: float | None
    """Time-mean of running + waiting."""
    server_difference_share: float | None
    verdict: str


def littles_law(facts: Facts) -> LittlesLaw | None:
    """None with fewer than 30 requests in the window: nothing to check."""
    spans = _spans(facts)
    if len(spans) < _FEWEST:
        return None
    window = _window(facts, spans)
    start_s, end_s, whole = window
    inside = spans[(spans["sent_s"] >= start_s) & (spans["sent_s"] < end_s)]
    if len(inside) < _FEWEST:
        return None
    sampled = _sampled(facts, window) if whole else None
    mean = _integrated(spans, window) if sampled is None else sampled.mean
    rps = len(inside) / (end_s - start_s)
    sojourn_s = float((inside["end_s"] - inside["sent_s"]).mean())
    server = _server_mean(facts, start_s, end_s)
    off = _relative(rps * sojourn_s, mean)
    server_off = None if server is None else _relative(server, mean)
    tolerance = _AGREES if sampled is None else max(_AGREES, sampled.error_share)
    return LittlesLaw(
        start_s=start_s,
        end_s=end_s,
        window="whole run" if whole else "steady part",
        in_flight_mean=mean,
        in_flight_source="records" if sampled is None else "samples",
        arrival_rps=rps,
        sojourn_mean_s=sojourn_s,
        product=rps * sojourn_s,
        difference_share=off,
        server_mean=server,
        server_difference_share=server_off,
        verdict=f"{_verdict(off, tolerance, whole=whole)}; {_witness(server_off, tolerance)}",
    )


def _window(facts: Facts, spans: pd.DataFrame) -> _Window:
    """All of a run of which every request has a row and an end, else the middle of the sending."""
    first_s, last_s = float(spans["sent_s"].min()), float(spans["sent_s"].max())
    sent = facts.attempts[facts.attempts["sent_s"].notna()]
    complete = facts.manifest.state == "finished" and facts.missing.empty
    if complete and bool(sent["finished_s"].notna().all()):
        return _Window(first_s, float(spans["end_s"].max()), whole=True)
    return _Window(first_s + _SKIPPED_SHARE * (last_s - first_s), last_s, whole=False)


def _integrated(spans: pd.DataFrame, window: _Window) -> float:
    begun_s = spans["sent_s"].clip(lower=window.start_s)
    overlap_s = spans["end_s"].clip(upper=window.end_s) - begun_s
    return float(overlap_s.clip(lower=0).sum() / (window.end_s - window.start_s))


class _Sampled(NamedTuple):
    mean: float
    error_share: float
    """Three standard errors / mean."""


def _sampled(facts: Facts, window: _Window) -> _Sampled | None:
    """What the workers counted about once a second; None with too few samples or an idle client."""
    level = samples.gauge(facts.workers, ServerMetric.WORKER_IN_FLIGHT)
    inside = level[(level.index >= window.start_s) & (level.index <= window.end_s)].dropna()
    mean = samples.time_mean(level, window.start_s, window.end_s)
    if len(inside) < _FEWEST_SAMPLES or not mean:
        return None
    error = float(inside.std()) / len(inside) ** 0.5
    return _Sampled(mean, _STANDARD_ERRORS * error / mean)


def _spans(facts: Facts) -> pd.DataFrame:
    sent = facts.attempts[facts.attempts["sent_s"].notna()]
    end_s = sent["finished_s"].fillna(max(facts.end_s, float(sent["sent_s"].max() or 0.0)))
    return pd.DataFrame({"sent_s": sent["sent_s"], "end_s": end_s})


def _server_mean(facts: Facts, start_s: float, end_s: float) -> float | None:
    running = samples.gauge(facts.server, ServerMetric.REQUESTS_RUNNING)
    waiting = samples.gauge(facts.server, ServerMetric.REQUESTS_WAITING)
    if running.empty or waiting.empty:
        return None
    return samples.time_mean(running + waiting, start_s, end_s)


def _relative(value: float, reference: float) -> float:
    return (value - reference) / reference if reference else 0.0


def _verdict(off: float, tolerance: float, *, whole: bool) -> str:
    if abs(off) <= tolerance:
        return "the law holds"
    if whole:
        return "the law does not hold: what the workers sampled in flight is not what the rows say"
    return "not steady in this window"


def _witness(server_off: float | None, tolerance: float) -> str:
    if server_off is None:
        return "the server does not tell its own count"
    if abs(server_off) <= tolerance:
        return "the server agrees"
    return f"the server saw {'fewer' if server_off < 0 else 'more'} in flight than the client"
