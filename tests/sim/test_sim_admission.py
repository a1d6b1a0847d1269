"""Admission by length and by estimated wait, on jobs whose sizes are heavy-tailed."""

import numpy as np
import pytest

from loadkit.core import parse_policy
from loadkit.sim import SlotOptions, Workload, simulate_slots
from loadkit.sim.outcomes import State

HALF_S = 1800.0
SLOTS = 64


@pytest.fixture(scope="module")
def growing_jobs() -> Workload:
    """1.15 x what 64 slots can do for an hour; half way, jobs become four times as long and as rare."""
    rng = np.random.default_rng(5)
    arrivals_s, sizes = [], []
    for start_s, mean_tokens in ((0.0, 200), (HALF_S, 800)):
        service_s = mean_tokens / 200
        count = rng.poisson(1.15 * SLOTS / service_s * HALF_S)
        arrivals_s.append(start_s + np.sort(rng.uniform(0, HALF_S, count)))
        # Lognormal with sigma 1.5: a hundredth of the jobs is a fifth of the work.
        sizes.append(rng.lognormal(np.log(mean_tokens) - 1.5**2 / 2, 1.5, count))
    at_s = np.concatenate(arrivals_s)
    tokens = np.maximum(1, np.concatenate(sizes)).astype(int)
    lanes = np.zeros(len(at_s), int)
    names = [f"r{number}" for number in range(len(at_s))]
    return Workload(names, at_s, tokens / 200, ["interactive"], lanes, tokens=tokens.tolist())


def halves(work: Workload, policy: str) -> list[tuple[float, float]]:
    """Of each half: p99 of the wait in seconds, and the share refused."""
    options = SlotOptions(SLOTS, horizon_s=2 * HALF_S)
    of = simulate_slots(work, parse_policy(policy), options).outcomes
    waits_s, refused = of.start_s - of.arrival_s, of.state == State.REJECTED
    return [
        (float(np.nanquantile(waits_s[half], 0.99)), float(refused[half].mean()))
        for half in (of.arrival_s < HALF_S, of.arrival_s >= HALF_S)
    ]


def test_a_bound_on_length_lets_waits_grow_with_the_jobs(growing_jobs: Workload) -> None:
    (short_s, _), (long_s, _) = halves(growing_jobs, "fifo,queue=100")

    assert long_s > 3 * short_s


def test_a_bound_on_the_estimated_wait_keeps_them_and_refuses_no_more(
    growing_jobs: Workload,
) -> None:
    by_length = halves(growing_jobs, "fifo,queue=100")
    by_wait = halves(growing_jobs, "fifo,max-wait=2s")

    assert by_wait[1][0] < 1.5 * by_wait[0][0]
    for (_, refused), (_, refused_by_length) in zip(by_wait, by_length, strict=True):
        assert refused == pytest.approx(refused_by_length, abs=0.01)
