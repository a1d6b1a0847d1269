"""Little's law, L = λ·W, as a check of the measurement itself.

Over a window in the middle of the run: L integrated from the records, λ and W from the requests sent
in the window. They agree when the run was steady there and no request was lost. The server's own
running + waiting is the independent witness.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from loadkit.analysis import samples
from loadkit.analysis.facts import Facts
from loadkit.model import ServerMetric

_SKIPPED_SHARE = 0.1
"""Of the sending time, left out at its start while the system fills."""
_FEWEST = 30
_AGREES = 0.1


@dataclass(frozen=True, slots=True)
class LittlesLaw:
    start_s: float
    end_s: float
    in_flight_mean: float
    """Integral of the records over the window / its length."""
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
    first_s, last_s = spans["sent_s"].min(), spans["sent_s"].max()
    start_s = first_s + _SKIPPED_SHARE * (last_s - first_s)
    inside = spans[(spans["sent_s"] >= start_s) & (spans["sent_s"] < last_s)]
    if len(inside) < _FEWEST:
        return None
    length_s = last_s - start_s
    overlap_s = np.minimum(spans["end_s"], last_s) - np.maximum(spans["sent_s"], start_s)
    mean = float(overlap_s.clip(lower=0).sum() / length_s)
    rps = len(inside) / length_s
    sojourn_s = float((inside["end_s"] - inside["sent_s"]).mean())
    server = _server_mean(facts, start_s, last_s)
    off = _relative(rps * sojourn_s, mean)
    server_off = None if server is None else _relative(server, mean)
    return LittlesLaw(
        start_s=float(start_s),
        end_s=float(last_s),
        in_flight_mean=mean,
        arrival_rps=rps,
        sojourn_mean_s=sojourn_s,
        product=rps * sojourn_s,
        difference_share=off,
        server_mean=server,
        server_difference_share=server_off,
        verdict=_verdict(off, server_off),
    )


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


def _verdict(off: float, server_off: float | None) -> str:
    steady = "the law holds" if abs(off) <= _AGREES else "not steady in this window"
    if server_off is None:
        return f"{steady}; the server does not tell its own count"
    if abs(server_off) <= _AGREES:
        return f"{steady}; the server agrees"
    place = "fewer" if server_off < 0 else "more"
    return f"{steady}; the server saw {place} in flight than the client"
