"""What a lane was offered and what it got, against runs whose truth was written down first."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.analysis import LaneSummary, exit_code, summarize, to_json
from loadkit.analysis.facts import load
from loadkit.analysis.gaps import gaps_over_time
from loadkit.analysis.quantiles import quantile, quantiles
from loadkit.model import RequestRecord, Send
from synthetic_run import answered, failed, sends_of, write_run


def lane_of(
    tmp_path: Path, rows: list[RequestRecord], name: str = "interactive", **run: Any
) -> LaneSummary:
    summary = summarize(write_run(tmp_path / "run", rows, **run))
    return next(lane for lane in summary.lanes if lane.lane == name)


def test_ttft_counts_from_the_scheduled_instant_not_from_the_sent_one(tmp_path: Path) -> None:
    """A client 2 s late with a server of 0.1 s is a TTFT of 2.1 s: no coordinated omission."""
    lane = lane_of(tmp_path, [answered("a", 1.0, lag_s=2.0, ttft_sent_s=0.1)])
    assert lane.latencies["ttft"].max == pytest.approx(2.1)
    assert lane.latencies["ttft_sent"].max == pytest.approx(0.1)
    assert lane.latencies["send_lag"].max == pytest.approx(2.0)


def test_tpot_divides_by_tokens_of_usage_and_itl_by_chunks(tmp_path: Path) -> None:
    """11 chunks 20 ms apart that held 41 tokens: ITL 20 ms, TPOT 200 / 40 = 5 ms."""
    lane = lane_of(tmp_path, [answered("a", 0.0, gap_s=0.02, tokens=11, output_tokens=41)])
    assert lane.latencies["itl"].n == 10
    assert lane.latencies["itl"].p99 == pytest.approx(0.02, rel=1e-3)
    assert lane.latencies["tpot"].p50 == pytest.approx(0.005)


def stalled(request_id: str, due_s: float, pause_s: float, **facts: Any) -> RequestRecord:
    """Eleven chunks 20 ms apart, but for one pause after the fifth."""
    offsets_s = tuple(0.1 + 0.02 * i + (pause_s if i > 4 else 0.0) for i in range(11))
    return answered(request_id, due_s, chunk_offsets_s=offsets_s, **facts)


def test_one_pause_is_the_longest_gap_of_its_request_alone(tmp_path: Path) -> None:
    rows = [answered(f"a{i}", float(i), tokens=11) for i in range(98)]
    rows += [stalled("b", 98.0, 0.48), answered("one chunk", 99.0, tokens=1)]
    lane = lane_of(tmp_path, rows)
    longest = lane.latencies["stall"]
    assert longest.n == 99  # an answer of one chunk has no gap
    assert (longest.p50, longest.max) == pytest.approx((0.02, 0.5), rel=1e-4)
    assert lane.latencies["itl"].p99 == pytest.approx(0.02, rel=1e-4)


def test_gaps_lie_in_the_bin_in_which_they_ended(tmp_path: Path) -> None:
    """The pause lasts from 0.181 to 0.681 s."""
    rows = [stalled("a", 0.0, 0.48), answered("b", 1.5, lane="batch", tokens=2, gap_s=0.1)]
    facts = load(write_run(tmp_path / "run", rows))
    found = gaps_over_time(facts, np.array([0.0, 0.5, 1.0, 1.5, 2.0]))
    unknown = np.nan
    assert found["interactive"].longest_s == pytest.approx(
        [0.02, 0.5, unknown, unknown], rel=1e-4, nan_ok=True
    )
    assert found["interactive"].p50_s == pytest.approx(
        [0.02, 0.02, unknown, unknown], rel=1e-4, nan_ok=True
    )
    assert found["interactive"].longest_ended_s[1] == pytest.approx(0.681)
    assert found["batch"].longest_s[3] == pytest.approx(0.1, rel=1e-4)


@pytest.mark.parametrize(
    "facts",
    [{"tokens": 1}, {"token_source": "chunks"}, {"output_tokens": None, "token_source": None}],
    ids=["one token", "counted by chunks", "no count"],
)
def test_tpot_is_unknown_without_two_counted_tokens(tmp_path: Path, facts: dict[str, Any]) -> None:
    lane = lane_of(tmp_path, [answered("a", 0.0, **facts)])
    assert lane.latencies["tpot"] == (0, None, None, None, None, None)


def test_a_request_that_did_not_end_ok_is_counted_and_kept_out_of_the_latencies(
    tmp_path: Path,
) -> None:
    rows = [answered("a", 0.0), failed("b", 0.1, "rejected"), failed("c", 0.2, "timeout")]
    rows.append(answered("d", 0.3, status="truncated", ttft_sent_s=0.001))
    lane = lane_of(tmp_path, rows)
    assert lane.statuses == {"ok": 1, "rejected": 1, "timeout": 1, "truncated": 1}
    assert (lane.offered, lane.completed) == (4, 1)
    assert lane.latencies["ttft"].n == 1
    assert lane.failed_ttft.max == pytest.approx(0.002)


def test_goodput_is_a_share_of_what_was_offered(tmp_path: Path) -> None:
    """Ten offered, six fast, two slow, two refused: 60 %, however many succeeded."""
    rows = [answered(f"f{i}", i / 10) for i in range(6)]
    rows += [answered(f"s{i}", i / 10, ttft_sent_s=3.0) for i in range(2)]
    rows += [failed(f"x{i}", i / 10, "rejected") for i in range(2)]
    slo = {"lane": "interactive", "metric": "ttft", "quantile": 0.5, "threshold_s": 0.5}
    assert lane_of(tmp_path, rows, slos=(slo,)).goodput_share == pytest.approx(0.6)


def test_goodput_needs_every_slo_and_a_single_token_cannot_break_tpot(tmp_path: Path) -> None:
    rows = [
        answered("good", 0.0),
        answered("slow to begin", 0.1, ttft_sent_s=1.0),
        answered("slow to go on", 0.2, gap_s=0.2),
        answered("one token", 0.3, tokens=1),
    ]
    slos = (
        {"lane": "interactive", "metric": "ttft", "quantile": 0.9, "threshold_s": 0.5},
        {"lane": "interactive", "metric": "tpot", "quantile": 0.9, "threshold_s": 0.05},
    )
    assert lane_of(tmp_path, rows, slos=slos).goodput_share == pytest.approx(0.5)


def test_without_an_slo_or_the_metric_goodput_is_unknown_not_zero(tmp_path: Path) -> None:
    slo = {"lane": "interactive", "metric": "queue_wait", "quantile": 0.9, "threshold_s": 0.5}
    assert lane_of(tmp_path, [answered("a", 0.0)]).goodput_share is None
    assert lane_of(tmp_path / "2", [answered("a", 0.0)], slos=(slo,)).goodput_share is None


def test_deadline_share_is_over_the_requests_that_have_a_deadline(tmp_path: Path) -> None:
    rows = [
        answered("in time", 0.0, lane="batch", deadline_s=10.0),
        answered("late", 0.0, lane="batch", deadline_s=0.1),
        failed("refused", 0.0, "rejected", lane="batch", deadline_s=10.0),
        answered("without", 0.0, lane="batch"),
    ]
    lane = lane_of(tmp_path, rows, "batch")
    assert lane.deadlines == 3
    assert lane.deadline_share == pytest.approx(1 / 3)


def test_a_deadline_beyond_the_end_of_a_cut_request_is_neither_met_nor_missed(
    tmp_path: Path,
) -> None:
    rows = [
        answered("in time", 0.0, lane="batch", deadline_s=10.0),
        failed("cut", 1.0, "cancelled", lane="batch", deadline_s=100.0),
        failed("cut too late", 1.0, "cancelled", lane="batch", deadline_s=2.0),
    ]
    lane = lane_of(tmp_path, rows, "batch", state="stopped", ended_s=5.0, ended_why="Ctrl-C")
    assert (lane.deadlines, lane.deadline_share) == (2, 0.5)


def test_a_retried_request_is_one_request_whose_time_runs_from_its_first_due_instant(
    tmp_path: Path,
) -> None:
    rows = [
        failed("a", 1.0, "rejected", http_status=429),
        answered("a", 1.0, lag_s=4.0, ttft_sent_s=0.1, attempt=1),
        answered("b", 2.0),
    ]
    summary = summarize(write_run(tmp_path / "run", rows))
    lane = summary.lanes[0]
    assert (lane.offered, lane.completed, lane.retries) == (2, 2, 1)
    assert lane.statuses == {"ok": 2}
    assert lane.latencies["ttft"].max == pytest.approx(4.1)
    assert summary.send_lag.max == pytest.approx(0.001), "a retry is late on purpose"


def test_queue_wait_carries_its_source_and_unlike_sources_are_not_mixed(tmp_path: Path) -> None:
    rows = [
        answered(f"a{i}", 0.0, queue_wait_s=0.2, queue_wait_source="response") for i in range(3)
    ]
    rows.append(answered("b", 0.0, queue_wait_s=9.0, queue_wait_source="estimated"))
    lane = lane_of(tmp_path, rows)
    assert lane.queue_wait_source == "response"
    assert lane.queue_wait_sources == {"response": 3, "estimated": 1}
    assert (lane.latencies["queue_wait"].n, lane.latencies["queue_wait"].max) == (3, 0.2)


def test_time_parts_add_up_to_the_mean_e2e(tmp_path: Path) -> None:
    rows = [
        answered(
            str(i), i * 1.0, ttft_sent_s=1.0, queue_wait_s=0.6, prefill_s=0.3,
            queue_wait_source="response",
        )
        for i in range(5)
    ]  # fmt: skip
    lane = lane_of(tmp_path, rows)
    assert lane.time_parts["queue wait"] == pytest.approx(0.6)
    assert lane.time_parts["network and rest"] == pytest.approx(0.1)
    assert sum(lane.time_parts.values()) == pytest.approx(lane.latencies["e2e"].mean)


def test_tenants_are_summarised_per_lane_largest_first_and_bounded(tmp_path: Path) -> None:
    rows = [answered(f"{t}-{i}", 0.0, tenant=f"t{t:02}") for t in range(30) for i in range(t + 1)]
    summary = summarize(write_run(tmp_path / "run", rows))
    assert [t.tenant for t in summary.tenants[:2]] == ["t29", "t28"]
    assert len(summary.tenants) == 20
    assert summary.tenants_left_out == 10


def test_an_empty_run_has_no_numbers_instead_of_zeros(tmp_path: Path) -> None:
    summary = summarize(write_run(tmp_path / "run", []))
    assert summary.lanes == ()
    assert not summary.validity.valid
    assert to_json(summary)["send_lag_s"]["p99"] is None


def slo_run(tmp_path: Path, rows: list[RequestRecord], **slo: Any) -> Any:
    asked = {"lane": "interactive", "metric": "ttft", "quantile": 0.9, "threshold_s": 0.5, **slo}
    return summarize(write_run(tmp_path / "run", rows, slos=(asked,)))


def test_an_slo_is_met_when_the_asked_share_of_offered_requests_is_within(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1) for i in range(9)] + [answered("s", 1.0, ttft_sent_s=2.0)]
    summary = slo_run(tmp_path, rows)
    assert summary.slos[0].met is True
    assert summary.slos[0].value_s == pytest.approx(0.101)
    assert exit_code(summary) == 0


def test_refusing_requests_does_not_help_to_meet_an_slo(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1) for i in range(8)]
    rows += [failed(f"x{i}", 1.0, "rejected") for i in range(2)]
    summary = slo_run(tmp_path, rows)
    assert summary.slos[0].met is False
    assert summary.slos[0].within_share == pytest.approx(0.8)
    assert exit_code(summary) == 1


def test_requests_cut_by_ctrl_c_do_not_fail_an_slo(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1) for i in range(8)]
    rows += [failed(f"x{i}", 0.8, "cancelled") for i in range(8)]
    assert slo_run(tmp_path, rows).slos[0].met is True


@pytest.mark.parametrize("slo", [{"lane": "interactiv"}, {"metric": "prefill"}])
def test_an_slo_that_cannot_be_judged_is_not_passed(tmp_path: Path, slo: dict[str, Any]) -> None:
    summary = slo_run(tmp_path, [answered("a", 0.0)], **slo)
    assert summary.slos[0].met is None
    assert exit_code(summary) == 1


def test_an_itl_slo_is_judged_over_pooled_chunk_gaps(tmp_path: Path) -> None:
    """90 gaps of 20 ms and 10 of 200 ms: the p90 is met, the p91 is not."""
    rows = [answered(str(i), 0.0) for i in range(9)] + [answered("s", 0.0, gap_s=0.2)]
    assert slo_run(tmp_path / "a", rows, metric="itl", threshold_s=0.1).slos[0].met is True
    assert (
        slo_run(tmp_path / "b", rows, metric="itl", threshold_s=0.1, quantile=0.91).slos[0].met
        is False
    )


@given(
    values=st.lists(st.floats(0, 1e6), min_size=1, max_size=200),
    q=st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999]),
)
def test_a_quantile_is_the_smallest_value_that_covers_the_share(
    values: list[float], q: float
) -> None:
    found = quantile(np.array(values), q)
    assert found in values
    within = sum(v <= found for v in values)
    below = sum(v < found for v in values)
    assert within >= q * len(values) - 1e-6
    assert below < q * len(values) + 1e-6


def test_quantiles_agree_with_numpy_inverted_cdf() -> None:
    values = np.array([random.Random(5).expovariate(1.0) for _ in range(1013)])
    found = quantiles(np.append(values, math.nan))
    assert found.n == 1013
    assert found.p50 == np.quantile(values, 0.5, method="inverted_cdf")
    assert found.p99 == np.quantile(values, 0.99, method="inverted_cdf")


def test_a_request_of_the_schedule_without_a_row_is_dropped_and_named(tmp_path: Path) -> None:
    """A crash: `lost` was due before the last row, `later` was not, `reply` waits for a lost parent."""
    rows = [answered(str(i), i * 0.1) for i in range(20)]
    planned = [
        *sends_of(rows),
        Send("lost", 1.0, "batch", 10, 10, deadline_s=1.5),
        Send("later", 99.0, "batch", 10, 10),
        Send("reply", 1.1, "batch", 10, 10, parent_id="lost", think_s=0.1),
        Send("due reply", 0.1, "batch", 10, 10, parent_id="1", think_s=0.5),
    ]
    run = write_run(
        tmp_path / "run", rows, sends=planned, state="running", ended_s=None, ended_why=None
    )
    summary = summarize(run)
    batch = next(lane for lane in summary.lanes if lane.lane == "batch")
    assert batch.statuses == {"dropped": 2}
    assert batch.deadline_share == 0
    assert summary.missing == 2
    assert any("2 of 22" in reason for reason in summary.validity.reasons)
    assert exit_code(summary) == 3


def test_what_was_due_after_ctrl_c_was_never_offered(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1) for i in range(20)]
    rows.append(failed("after", 50.0, "dropped", error="stopped"))
    planned = [*sends_of(rows), Send("much later", 99.0, "interactive", 10, 10)]
    run = write_run(
        tmp_path / "run", rows, sends=planned, state="stopped", ended_s=3.0, ended_why="Ctrl-C"
    )
    summary = summarize(run)
    assert summary.offered == 20
    assert summary.validity.valid
    assert any("Ctrl-C" in warning for warning in summary.validity.warnings)
