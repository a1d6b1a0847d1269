"""A starved generator must never read as a slow server, nor a slow server as a starved generator."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loadkit.analysis import Validity, exit_code, summarize
from loadkit.model import MetricSample, RequestRecord, ServerMetric
from synthetic_run import answered, failed, sample, series, worker_sample, write_run

M = ServerMetric
ROWS = [answered(str(i), i * 0.1) for i in range(100)]


def judged(
    tmp_path: Path,
    rows: Sequence[RequestRecord] = ROWS,
    samples: Sequence[MetricSample] = (),
    **manifest: Any,
) -> Validity:
    return summarize(write_run(tmp_path / "run", list(rows), list(samples), **manifest)).validity


def test_a_run_that_kept_up_is_valid(tmp_path: Path) -> None:
    healthy = [worker_sample(float(t), M.WORKER_CPU_RATIO, 0.4) for t in range(10)]
    assert judged(tmp_path, samples=healthy).reasons == []


def test_late_sending_is_invalid_and_names_the_number_and_the_bound(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1, lag_s=0.2 if i < 5 else 0.001) for i in range(100)]
    (reason,) = judged(tmp_path, rows).reasons
    assert reason == "send lag p99 200 ms, bound 50 ms (max 200 ms)"


def test_the_bound_of_the_send_lag_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1, lag_s=0.2) for i in range(100)]
    assert judged(tmp_path, rows, limits={"max_send_lag_s": 0.5}).valid


@pytest.mark.parametrize(
    ("name", "high", "low", "verdict"),
    [
        (M.WORKER_CPU_RATIO, 0.97, 0.5, "invalid"),
        (M.WORKER_LOOP_LAG_S, 0.3, 0.001, "invalid"),
        (M.WORKER_CPU_WAIT_RATIO, 0.5, 0.01, "warning"),
    ],
)
def test_a_worker_short_of_cpu_is_told_beyond_a_tenth_of_the_samples(
    tmp_path: Path, name: ServerMetric, high: float, low: float, verdict: str
) -> None:
    def worker(share: float) -> list[MetricSample]:
        calm = [worker_sample(t / 10, name, low, worker=1) for t in range(100)]
        return calm + [
            worker_sample(t / 10, name, high if t < share * 100 else low) for t in range(100)
        ]

    seldom, often = (judged(tmp_path / str(share), samples=worker(share)) for share in (0.08, 0.2))
    told = "20% of the samples of worker-0"
    assert [check.verdict for check in often.checks if told in check.text] == [verdict]
    assert [check.verdict for check in seldom.checks if "8% of the samples" in check.text] == ["ok"]


def test_an_emulator_that_stalled_between_two_scrapes_is_a_warning_that_names_the_peak(
    tmp_path: Path,
) -> None:
    """Each last step was on time; the largest lateness rose to 0.4 s during the run."""
    told = series(M.CLOCK_LATENESS_S, [0.001] * 10)
    stalled = [*told, *series(M.CLOCK_LATENESS_MAX_S, [0.002] * 5 + [0.4] * 5)]
    verdict = judged(tmp_path / "stalled", samples=stalled)
    assert verdict.valid
    assert any("by 400 ms at the worst" in warning for warning in verdict.warnings)
    before = [*told, *series(M.CLOCK_LATENESS_MAX_S, [0.4] * 10)]
    warnings = judged(tmp_path / "before", samples=before).warnings
    assert not any("emulator" in warning for warning in warnings)


def test_an_emulator_that_is_late_in_more_than_a_tenth_of_the_samples_is_invalid(
    tmp_path: Path,
) -> None:
    late = series(M.CLOCK_LATENESS_S, [0.2] * 2 + [0.001] * 8)
    (reason,) = judged(tmp_path, samples=late).reasons
    assert reason.startswith("emulator lateness over 50 ms in 20% of the samples")


def test_a_server_that_is_slow_to_accept_does_not_make_the_client_late(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1, lag_s=0.31)._replace(connect_s=0.3) for i in range(100)]
    assert judged(tmp_path, rows).valid


def test_slow_and_failing_servers_are_results(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1, ttft_sent_s=30.0) for i in range(50)]
    rows += [failed(f"x{i}", i * 0.1, "error", http_status=500) for i in range(50)]
    assert judged(tmp_path, rows).valid


def test_a_client_cap_is_invalid_and_a_failed_parent_is_not(tmp_path: Path) -> None:
    capped = failed("c", 1.0, "dropped", error="in-flight cap of 8 reached")
    orphan = failed("o", 1.0, "dropped", error="its parent failed")
    (reason,) = judged(tmp_path / "a", [*ROWS, capped]).reasons
    assert "1 x in-flight cap of 8 reached" in reason
    assert judged(tmp_path / "b", [*ROWS, orphan]).valid


def test_rows_that_never_came_back_from_a_worker_are_named(tmp_path: Path) -> None:
    lost = [
        failed(f"l{i}", 1.0, "dropped", error="no row came back from its worker") for i in range(3)
    ]
    events = ({"t_s": 4.0, "what": "worker 1 lost"},)
    reasons = judged(tmp_path, [*ROWS, *lost], events=events).reasons
    assert reasons[0].startswith("3 of 103 requests that were due have no row")
    assert reasons[1] == "worker 1 lost at 4.0 s"


def test_a_restarted_target_is_invalid_by_event_or_by_counter(tmp_path: Path) -> None:
    fell = series(M.PROMPT_TOKENS_TOTAL, [0, 1000, 4000, 10, 6000])
    assert any(
        "went down at 3.0 s" in reason for reason in judged(tmp_path / "a", samples=fell).reasons
    )
    events = ({"t_s": 3.0, "what": "server restarted at 3.0 s (x fell)"},)
    (reason,) = judged(tmp_path / "b", events=events).reasons
    assert reason == "the target was restarted: server restarted at 3.0 s (x fell)"


def test_a_gauge_that_falls_is_no_restart(tmp_path: Path) -> None:
    assert judged(tmp_path, samples=series(M.REQUESTS_RUNNING, [9, 3, 0])).valid


@pytest.mark.parametrize(
    ("state", "valid"), [("running", False), ("failed", False), ("stopped", True)]
)
def test_only_a_run_that_somebody_ended_is_valid(tmp_path: Path, state: str, valid: bool) -> None:
    assert judged(tmp_path, state=state, ended_why="why").valid is valid


def test_foreign_traffic_is_invalid(tmp_path: Path) -> None:
    """The server finished 60 more requests than were sent: its latencies are not ours alone."""
    (reason,) = judged(
        tmp_path, samples=series(M.REQUESTS_FINISHED_TOTAL, [0, *[160] * 20])
    ).reasons
    assert reason.startswith(
        "ledger: requests: client 100, server 160 (+60: the server counted more"
    )


def test_burst_delivery_is_a_warning_that_names_the_share(tmp_path: Path) -> None:
    burst = [
        answered(f"b{i}", i * 0.1, ttft_sent_s=1.0, gap_s=0.0001, tokens=20) for i in range(25)
    ]
    streams = [answered(f"s{i}", i * 0.1, tokens=20) for i in range(75)]
    verdict = judged(tmp_path, [*burst, *streams])
    assert verdict.valid
    assert any("25.0% of the streams" in warning for warning in verdict.warnings)


def test_prompts_of_another_length_than_planned_are_a_warning(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.1, prompt_tokens=250) for i in range(10)]
    assert any("+150.0%" in warning for warning in judged(tmp_path, rows).warnings)


def test_failed_scrapes_are_a_warning(tmp_path: Path) -> None:
    told = [sample(0.0, M.SCRAPE_OK, 1), sample(1.0, M.SCRAPE_OK, 0)]
    assert (
        "1 of 2 metric scrapes failed; charts show the gaps"
        in judged(tmp_path, samples=told).warnings
    )


def test_an_invalid_run_exits_with_3_even_when_an_slo_failed(tmp_path: Path) -> None:
    slo = {"lane": "interactive", "metric": "ttft", "quantile": 0.9, "threshold_s": 0.001}
    summary = summarize(write_run(tmp_path / "run", ROWS, slos=(slo,), state="failed"))
    assert exit_code(summary) == 3
