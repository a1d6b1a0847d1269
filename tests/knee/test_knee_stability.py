"""Does the queue grow? Lines, waves and random walks whose answer is known."""

import numpy as np
import pytest

from loadkit.analysis.knee.stability import hac_slope, stability

SECONDS = np.arange(60)


def test_the_slope_of_a_line_is_that_of_the_line() -> None:
    found = hac_slope((0.5 * SECONDS).tolist())
    assert found.per_s == pytest.approx(0.5)
    assert found.t == np.inf


def test_alternating_zeros_and_ones_have_next_to_no_slope() -> None:
    found = hac_slope([0, 1] * 30)
    assert found.per_s == pytest.approx(0.00083, abs=5e-6)
    assert found.t < 1


def test_a_flat_queue_does_not_grow() -> None:
    assert hac_slope([3.0] * 60).t == 0
    assert np.isnan(hac_slope([1.0, 2.0]).error_per_s)


def test_an_overloaded_queue_is_unstable() -> None:
    rng = np.random.default_rng(1)
    waiting = 5.0 * SECONDS + rng.normal(0, 3, 60)
    assert stability(waiting.tolist(), rate_rps=20.0) == "unstable"


def test_growth_that_left_little_waiting_is_marginal() -> None:
    assert stability((0.3 * SECONDS).tolist(), rate_rps=20.0) == "marginal"


def test_an_empty_queue_is_stable() -> None:
    assert stability([0.0] * 60, rate_rps=20.0) == "stable"
    assert stability([], rate_rps=20.0) == "stable"


def test_queues_that_wander_without_growing_are_seldom_called_unstable() -> None:
    """Autocorrelated with a memory of ten seconds around a mean of one second of arrivals."""
    rng = np.random.default_rng(2)
    calls = 0
    for _ in range(200):
        level, queue = 0.0, []
        for shock in rng.normal(0, 4, 160):
            level = 0.9 * level + shock
            queue.append(max(0.0, 20 + level))
        calls += stability(queue[100:], rate_rps=20.0) == "unstable"
    assert calls <= 10
