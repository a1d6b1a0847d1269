"""From steps to numbers under their names, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from knee_steps import FAST_S, SLO, step
from loadkit.analysis.knee.findings import Estimate, find, saturation
from loadkit.analysis.knee.sharing import sharing

AROUND = [step(rate, missed) for rate, missed in ((18.0, 2), (19.0, 4), (20.0, 12), (21.0, 50))]


def test_the_baseline_is_pooled_over_the_steps_at_low_load() -> None:
    fast = np.full(990, FAST_S)
    one = step(4.0, latency_s=np.append(fast, [0.3] * 10))
    other = step(5.0, latency_s=np.append(fast, [0.5] * 10))
    base = find([one, other, *AROUND], SLO).baseline
    assert base is not None
    # 20 of 2,000 lie above 0.1 s: the 1 % quantile from above is where they begin.
    assert (base.requests, base.steps) == (2000, 2)
    assert base.p99_s == pytest.approx(0.1 + 0.2 * 0.01, abs=2e-3)
    assert base.low_s == FAST_S and base.high_s == pytest.approx(0.3)


def test_invalid_steps_say_nothing() -> None:
    wild = step(12.0, missed=900, valid=False, overloaded=True, completed_rps=1.0)
    assert find([*AROUND, wild], SLO) == find(AROUND, SLO)


def test_saturation_is_the_mean_of_overloaded_steps_with_students_interval() -> None:
    rates = (24.0, 25.0, 26.0)
    found = saturation([step(40.0, completed_rps=rate, overloaded=True) for rate in rates])
    # mean 25, standard error 1/sqrt(3), t(0.975, 2) = 4.303 from the table
    assert found.rps == 25.0
    assert found.low_rps == pytest.approx(25 - 4.303 / 3**0.5, abs=1e-3)
    assert found.high_rps == pytest.approx(25 + 4.303 / 3**0.5, abs=1e-3)


def test_saturation_that_was_not_reached_is_not_guessed() -> None:
    found = find(AROUND, SLO)
    assert found.saturation.rps is None
    assert found.capacity.rps is not None
    assert found.capacity.utilisation is None


def test_utilisation_is_the_rate_over_the_saturation_and_carries_both_errors() -> None:
    over = [step(30.0, 900, completed_rps=rate, overloaded=True) for rate in (24.0, 25.0, 26.0)]
    found = find([*AROUND, *over], SLO)
    cap, full = found.capacity, found.saturation
    assert cap.rps and cap.low_rps and cap.high_rps and cap.utilisation
    assert full.rps and full.low_rps and full.high_rps
    value, low, high = cap.utilisation
    assert value == pytest.approx(cap.rps / 25.0)
    assert cap.low_rps / full.high_rps < low < cap.low_rps / full.rps
    assert cap.high_rps / full.rps < high < cap.high_rps / full.low_rps


def test_company_costs_what_the_two_capacities_differ_by() -> None:
    def with_capacity(rps: float, spread: float) -> Estimate:
        return Estimate("found", rps, rps / spread, rps * spread)

    plain = find(AROUND, SLO)
    shared = replace(plain, capacity=with_capacity(8.0, 1.1))
    alone = replace(plain, capacity=with_capacity(10.0, 1.1), saturation=Estimate("found", 12.5))
    cost = sharing(shared, alone)
    assert cost is not None and cost.bounds is not None
    assert cost.cost == pytest.approx(0.2)
    assert cost.utilisation == pytest.approx(8 / 12.5)
    # ln 1.1 twice in squares: a factor of 1.1**sqrt(2) both ways
    assert cost.bounds[0] == pytest.approx(1 - 0.8 * 1.1**2**0.5)
    assert cost.bounds[1] == pytest.approx(1 - 0.8 / 1.1**2**0.5)
    assert sharing(replace(shared, capacity=Estimate("not reached")), alone) is None
