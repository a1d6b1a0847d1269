"""Units in values: every accepted form, and a clear no to the rest."""

from collections.abc import Callable

import pytest

from loadkit import units
from loadkit.errors import InputError
from loadkit.model import Slo


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("10s", 10), ("1h30m", 5400), ("0s", 0), ("1.5m", 90), ("2d", 172800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert units.duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "10 parsecs", "s", "-1s", "1s2", "inf", "10sm"])
def test_a_duration_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        units.duration_s(text)

    assert "500ms" in caught.value.hint


def test_factors_and_rates() -> None:
    assert (units.factor("0.5x"), units.factor("10x"), units.rate_rps("8rps")) == (0.5, 10.0, 8.0)


@pytest.mark.parametrize("text", ["2", "x", "0x", "-2x", "2rps"])
def test_a_factor_needs_its_x_and_a_positive_number(text: str) -> None:
    with pytest.raises(InputError):
        units.factor(text)


def test_windows_may_be_open_at_either_side() -> None:
    assert units.window_s("5m:10m") == (300, 600)
    assert units.window_s(":10m") == (0, 600)
    assert units.window_s("5m:") == (300, float("inf"))


@pytest.mark.parametrize("text", ["10m", "10m:5m", "5m:5m", "a:b"])
def test_a_window_needs_two_ends_in_order(text: str) -> None:
    with pytest.raises(InputError):
        units.window_s(text)


def test_an_slo() -> None:
    assert units.slo("interactive:ttft:p99:500ms") == Slo("interactive", "ttft", 0.99, 0.5)
    assert units.slo("batch:e2e:p99.9:1h").quantile == pytest.approx(0.999)


@pytest.mark.parametrize(
    "text",
    ["ttft:p99:500ms", "a:speed:p99:1s", "a:ttft:99:1s", "a:ttft:p100:1s", "a:ttft:p99:500"],
)
def test_a_malformed_slo_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        units.slo(text)


@pytest.mark.parametrize("read", [units.factor, units.duration_s])
def test_infinity_is_no_value(read: Callable[[str], float]) -> None:
    with pytest.raises(InputError):
        read("1e400x" if read is units.factor else "1e400s")
