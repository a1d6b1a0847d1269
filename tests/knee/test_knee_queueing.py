"""M/M/64 in closed form against published figures, and what other ways of finding a knee make of it."""

import numpy as np
import pytest
from kneed import KneeLocator

from loadkit.analysis.knee.crossing import StepShare, crossing
from loadkit.analysis.knee.queueing import erlang_c, utilisation_at_wait, wait_quantile_s

SLOTS, SERVICE_S, BASE_S = 64, 1.6487, 0.3
REQUESTS = 10_000
"""A step that saw the long run."""


@pytest.mark.parametrize(
    ("utilisation", "waits"), [(0.8, 0.05606), (0.9, 0.31066), (0.95, 0.58801)]
)
def test_erlang_c_of_64_servers(utilisation: float, waits: float) -> None:
    assert erlang_c(SLOTS, SLOTS * utilisation) == pytest.approx(waits, abs=5e-6)


def test_erlang_c_of_one_server_is_its_utilisation() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert erlang_c(1, 1.0) == 1.0


@pytest.mark.parametrize(
    ("utilisation", "p99_s"), [(0.8, 0.2220), (0.85, 0.4575), (0.9, 0.8852), (0.95, 2.0991)]
)
def test_p99_of_the_wait(utilisation: float, p99_s: float) -> None:
    assert wait_quantile_s(SLOTS, utilisation, SERVICE_S, 0.99) == pytest.approx(p99_s, abs=5e-5)


@pytest.mark.parametrize(
    ("wait_s", "utilisation"), [(0.3, 0.8192), (0.5, 0.8568), (1.0, 0.9085), (2.0, 0.9478)]
)
def test_where_one_request_in_a_hundred_waits_longer(wait_s: float, utilisation: float) -> None:
    assert utilisation_at_wait(SLOTS, SERVICE_S, wait_s) == pytest.approx(utilisation, abs=5e-5)


def p99_s(utilisation: float) -> float:
    """Of a first token that takes BASE_S without load."""
    return BASE_S + wait_quantile_s(SLOTS, utilisation, SERVICE_S, 0.99)


def kneedle(start: float, stop: float, step: float) -> float:
    loads = np.arange(start, stop + step / 2, step)
    curve = [p99_s(load) for load in loads]
    knee: float = KneeLocator(loads, curve, curve="convex", direction="increasing", S=1).knee
    return knee


@pytest.mark.parametrize(
    ("ladder", "knee"),
    [
        ((0.1, 0.9, 0.1), 0.7),
        ((0.1, 0.95, 0.05), 0.75),
        ((0.1, 0.98, 0.02), 0.86),
        ((0.5, 0.98, 0.02), 0.9),
    ],
)
def test_kneedle_finds_another_knee_for_every_range_of_loads(
    ladder: tuple[float, float, float], knee: float
) -> None:
    assert kneedle(*ladder) == pytest.approx(knee, abs=1e-9)


@pytest.mark.parametrize("ladder", [(0.5, 0.98, 0.02), (0.1, 0.98, 0.02), (0.3, 0.96, 0.04)])
@pytest.mark.parametrize(("wait_s", "truth"), [(0.3, 0.8192), (0.6, 0.8710), (1.0, 0.9085)])
def test_the_crossing_of_exact_shares_is_the_same_for_every_range_of_loads(
    ladder: tuple[float, float, float], wait_s: float, truth: float
) -> None:
    start, stop, step = ladder
    shares = []
    for load in np.arange(start, stop + step / 2, step):
        decay_per_s = SLOTS * (1 - load) / SERVICE_S
        missed = erlang_c(SLOTS, SLOTS * load) * np.exp(-decay_per_s * wait_s)
        shares.append(StepShare(load, REQUESTS, round(missed * REQUESTS)))
    found = crossing(shares)
    assert found.low_rps is not None and found.high_rps is not None
    assert found.rate_rps == pytest.approx(truth, rel=0.02)
    assert found.low_rps < truth < found.high_rps
