"""Replicas from a capacity with its interval: worked out by hand."""

import pytest

from loadkit.analysis.knee.findings import Estimate, Findings
from loadkit.analysis.knee.planning import day_need, need
from loadkit.errors import InputError
from loadkit.model import Slo

SLO = Slo("interactive", "ttft", 0.99, 0.5)
NOTHING = Estimate("not reached")


def findings(capacity: Estimate, saturation: Estimate = NOTHING) -> Findings:
    return Findings(SLO, None, capacity, NOTHING, NOTHING, saturation)


TEN = Estimate("found", 10.0, 8.0, 12.5)


def test_the_interval_of_the_capacity_becomes_one_of_replicas() -> None:
    one = need(findings(TEN, Estimate("found", 16.0)), 100.0)

    assert (one.fewest, one.likely, one.safe) == (8, 10, 13)
    assert one.headroom == pytest.approx(1 - 100 / 130)
    assert one.utilisation == pytest.approx(100 / (13 * 16))


def test_a_load_that_fits_exactly_needs_no_replica_more() -> None:
    one = need(findings(TEN), 80.0)

    assert one.safe == 10
    assert one.utilisation is None


def test_one_replica_is_the_least() -> None:
    assert need(findings(TEN), 0.1).safe == 1


def test_an_unknown_capacity_plans_nothing() -> None:
    with pytest.raises(InputError, match="not reached"):
        need(findings(Estimate("not reached", low_rps=3.0)), 10.0)


def test_a_day_is_planned_by_its_busiest_minute_and_hour_by_hour() -> None:
    calm = [float(second) for second in range(0, 7200, 10)]  # 0.1 a second for two hours
    burst = [3600.0 + k / 50 for k in range(3000)]  # 50 a second in the first minute of hour 1

    day = day_need(findings(TEN), sorted(calm + burst), window_s=60.0)

    assert day.peak_at_s == 3600.0
    assert day.peak.rate_rps == pytest.approx((3000 + 6) / 60)
    assert day.peak.safe == 7  # 50.1 / 8
    # A window that begins shortly before the burst belongs to the hour in which it begins.
    assert [hour.safe for hour in day.hours][1] == 7
    assert day.replica_hours == sum(hour.safe for hour in day.hours)


def test_a_trace_without_requests_is_no_day() -> None:
    with pytest.raises(InputError, match="no requests"):
        day_need(findings(TEN), [], 60.0)
