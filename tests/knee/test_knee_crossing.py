"""Where shares cross a level: what must hold whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.analysis.knee.crossing import StepShare, crossing

SHARES = [
    StepShare(10.0, 600, 0), StepShare(16.0, 900, 0), StepShare(19.0, 1100, 4),
    StepShare(20.0, 1200, 20), StepShare(21.0, 1250, 70), StepShare(26.0, 1500, 1100),
]  # fmt: skip
RATES = st.floats(0.1, 1000)


def test_the_crossing_lies_between_the_steps_that_held_and_those_that_did_not() -> None:
    found = crossing(SHARES)
    assert found.status == "found"
    assert found.low_rps and found.rate_rps and found.high_rps
    assert 10 < found.low_rps < 19 < found.rate_rps < 20.5 < found.high_rps < 22


def test_the_order_of_the_steps_does_not_matter() -> None:
    assert crossing(SHARES[::-1]).rate_rps == pytest.approx(crossing(SHARES).rate_rps, rel=1e-12)


@given(factor=st.floats(0.01, 100))
def test_rates_in_another_unit_give_the_same_answer_in_that_unit(factor: float) -> None:
    scaled = [StepShare(s.rate_rps * factor, s.requests, s.missed) for s in SHARES]
    plain, other = crossing(SHARES), crossing(scaled)
    assert plain.rate_rps and plain.low_rps
    assert other.rate_rps == pytest.approx(plain.rate_rps * factor, rel=1e-6)
    assert other.low_rps == pytest.approx(plain.low_rps * factor, rel=1e-6)


def test_more_steps_that_say_the_same_narrow_the_interval() -> None:
    once, thrice = crossing(SHARES), crossing(SHARES * 3)
    assert once.low_rps and once.high_rps and thrice.low_rps and thrice.high_rps
    assert thrice.high_rps / thrice.low_rps < once.high_rps / once.low_rps


def test_a_stricter_level_is_crossed_earlier() -> None:
    strict, lax = crossing(SHARES, 0.001).rate_rps, crossing(SHARES, 0.05).rate_rps
    assert strict is not None and lax is not None
    assert strict < lax


def test_never_a_rate_above_all_that_was_tried() -> None:
    found = crossing([StepShare(rate, 1000, 0) for rate in (5.0, 10.0, 15.0)])
    assert (found.status, found.rate_rps, found.high_rps) == ("not reached", None, None)
    assert found.low_rps is not None and found.low_rps <= 15.0


def test_never_a_rate_below_all_that_was_tried() -> None:
    found = crossing([StepShare(rate, 1000, 400) for rate in (5.0, 10.0)])
    assert (found.status, found.rate_rps, found.low_rps) == ("over at the lowest load", None, None)
    assert found.high_rps is not None and found.high_rps >= 5.0


def test_steps_without_requests_say_nothing() -> None:
    assert crossing([]).status == crossing([StepShare(3.0, 0, 0)]).status == "nothing measured"


@given(
    st.lists(
        st.tuples(RATES, st.integers(1, 5000), st.floats(0, 1)).map(
            lambda t: StepShare(t[0], t[1], round(t[1] * t[2]))
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_was_measured_the_estimate_lies_within_what_was_tried(
    shares: list[StepShare],
) -> None:
    found = crossing(shares)
    rates = [share.rate_rps for share in shares]
    if found.rate_rps is None:
        assert found.status in ("not reached", "over at the lowest load")
        return
    assert min(rates) <= found.rate_rps <= max(rates)
    assert found.low_rps is not None and found.high_rps is not None
    assert found.low_rps <= found.rate_rps <= found.high_rps
    assert np.isfinite([found.low_rps, found.high_rps]).all()
