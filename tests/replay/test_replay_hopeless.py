"""When a run can only end one way."""

from loadkit.model import Slo
from loadkit.replay import StopRule
from loadkit.replay.hopeless import Misses
from synthetic_run import answered, failed

RULE = StopRule(Slo("interactive", "ttft", 0.99, 0.5), from_s=10.0, missed=3)


def test_late_refused_and_failed_requests_of_the_lane_count_from_the_instant_on() -> None:
    misses = Misses(RULE)
    misses.take([answered("early", 5.0, ttft_sent_s=2.0), answered("quick", 11.0)])
    misses.take([answered("other", 12.0, lane="batch", ttft_sent_s=2.0)])
    assert (misses.count, misses.why_stop) == (0, None)
    misses.take([answered("late", 13.0, ttft_sent_s=2.0), failed("no", 14.0, "rejected")])
    assert (misses.count, misses.why_stop) == (2, None)
    misses.take([failed("dead", 15.0, "error")])
    assert misses.why_stop is not None
    assert "3 requests have missed" in misses.why_stop
