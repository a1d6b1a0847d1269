"""Client totals against server counters, Little's law, and series over time."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from loadkit.analysis import LedgerLine, summarize
from loadkit.analysis.samples import gauge, increase, rate, resets, time_mean
from loadkit.model import MetricSample, RequestRecord, ServerMetric
from synthetic_run import answered, failed, sample, series, worker_sample, write_run

M = ServerMetric


def frame(samples: list[MetricSample]) -> pd.DataFrame:
    return pd.DataFrame(samples, columns=list(MetricSample._fields))


def test_an_increase_survives_a_reset() -> None:
    """5 to 9, restart, 0 to 3: 4 + 3 are known to have happened."""
    rows = frame(series(M.PREEMPTIONS_TOTAL, [5, 7, 9, 1, 3]))
    assert increase(rows, M.PREEMPTIONS_TOTAL) == 7
    assert [fell.t_s for fell in resets(rows)] == [3.0]


def test_a_series_that_appears_later_began_at_zero() -> None:
    rows = frame(
        series(M.REQUESTS_FINISHED_TOTAL, [10, 12, 12], reason="stop")
        + series(M.REQUESTS_FINISHED_TOTAL, [None, 4, 6], reason="length")
    )
    assert increase(rows, M.REQUESTS_FINISHED_TOTAL) == 8


def test_a_counter_that_was_never_seen_is_unknown_not_zero() -> None:
    assert increase(frame(series(M.REQUESTS_RUNNING, [1])), M.PREEMPTIONS_TOTAL) is None


def test_gauges_add_up_over_engines_and_show_failed_scrapes_as_gaps() -> None:
    rows = series(M.REQUESTS_RUNNING, [1, 2, None, 4], engine="0")
    rows += series(M.REQUESTS_RUNNING, [1, 1, None, 1], engine="1")
    values = gauge(frame([*rows, sample(2.0, M.SCRAPE_OK, 0.0)]), M.REQUESTS_RUNNING)
    assert values.index.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(values, [2, 3, np.nan, 5])


def test_a_long_silence_is_a_gap_without_any_word_of_it() -> None:
    rows = frame(series(M.REQUESTS_RUNNING, [1, 1, 1, *[None] * 10, 1, 1]))
    assert gauge(rows, M.REQUESTS_RUNNING).isna().sum() == 1


def test_a_rate_over_a_gap_is_unknown() -> None:
    rows = frame(series(M.PREEMPTIONS_TOTAL, [0, 2, 2, *[None] * 10, 50, 51]))
    assert rate(rows, M.PREEMPTIONS_TOTAL).dropna().tolist() == [2, 0, 1]


def test_a_time_mean_weighs_by_time_and_leaves_gaps_out() -> None:
    values = pd.Series([2.0, np.nan, 4.0, 4.0], index=[0.0, 1.0, 10.0, 11.0])
    assert time_mean(values, 0, 20) == pytest.approx(3.0)


def books(
    tmp_path: Path, rows: list[RequestRecord], samples: list[MetricSample], **run: Any
) -> dict[str, LedgerLine]:
    summary = summarize(write_run(tmp_path / "run", rows, samples, **run))
    return {line.name: line for line in summary.ledger}


ROWS = [answered(str(i), 1 + i * 0.1, preemptions=i % 2) for i in range(50)]


def counters(finished: int, prompt: int, generated: int, preempted: int) -> list[MetricSample]:
    gained = {
        M.REQUESTS_FINISHED_TOTAL: finished,
        M.PROMPT_TOKENS_TOTAL: prompt,
        M.GENERATION_TOKENS_TOTAL: generated,
        M.PREEMPTIONS_TOTAL: preempted,
    }
    return [s for name, n in gained.items() for s in series(name, [1000, *[1000 + n] * 10])]


def test_books_that_balance_are_equal(tmp_path: Path) -> None:
    found = books(tmp_path, ROWS, counters(50, 5000, 550, 25))
    assert [(line.client, line.server, line.verdict) for line in found.values()] == [
        (50, 50, "equal"),
        (5000, 5000, "equal"),
        (550, 550, "equal"),
        (25, 25, "equal"),
        (0, None, "unknown"),
    ]


def test_cut_requests_explain_as_much_as_they_could_have_used_and_no_more(tmp_path: Path) -> None:
    rows = [*ROWS, failed("t", 2.0, "timeout"), failed("u", 2.0, "cancelled")]
    found = books(tmp_path / "a", rows, counters(51, 5200, 561, 25))
    assert found["requests"].verdict == "explained"
    assert "1 timeout" in found["requests"].explanation
    assert found["generation_tokens"].verdict == "explained"
    assert (
        books(tmp_path / "b", rows, counters(53, 5000, 550, 25))["requests"].verdict
        == "unexplained"
    )


def test_a_server_that_counts_less_is_not_explained_by_cut_requests(tmp_path: Path) -> None:
    rows = [*ROWS, failed("t", 2.0, "timeout")]
    assert books(tmp_path, rows, counters(49, 5000, 550, 25))["requests"].verdict == "unexplained"


def test_requests_beyond_the_last_scrape_explain_what_the_server_lacks(tmp_path: Path) -> None:
    rows = [*ROWS, answered("late", 30.0, preemptions=0)]
    found = books(tmp_path, rows, counters(50, 5000, 550, 25))
    assert found["requests"].verdict == "explained"
    assert "outside the scraped window" in found["requests"].explanation


def test_preemptions_that_the_engine_does_not_tell_per_request_are_unknown_to_the_client(
    tmp_path: Path,
) -> None:
    rows = [answered(str(i), 1 + i * 0.1) for i in range(50)]
    summary = summarize(write_run(tmp_path / "run", rows, counters(50, 5000, 550, 7)))
    assert (summary.preemptions.client, summary.preemptions.server) == (None, 7)
    assert summary.preemptions.total == 7
    assert summary.lanes[0].preemptions is None
    assert summary.validity.valid


def test_health_probes_of_sglang_are_explained(tmp_path: Path) -> None:
    sglang = {"target": {"url": "u", "engine": "sglang"}}
    found = books(tmp_path, ROWS, counters(54, 5004, 554, 25), **sglang)
    assert {found[name].verdict for name in ("requests", "prompt_tokens", "generation_tokens")} == {
        "explained"
    }


def test_littles_law_holds_in_a_steady_run_and_the_server_confirms_it(tmp_path: Path) -> None:
    """10 requests a second that stay 2 s each: 20 in flight, known beforehand."""
    rows = [answered(str(i), i * 0.1, ttft_sent_s=1.0, gap_s=0.1, tokens=11) for i in range(600)]
    told = series(M.REQUESTS_RUNNING, [15] * 60) + series(M.REQUESTS_WAITING, [5] * 60)
    run = write_run(tmp_path / "run", rows, told, state="stopped")
    law = summarize(run).littles_law
    assert law is not None
    assert law.window == "steady part"
    assert law.in_flight_mean == pytest.approx(20, rel=0.01)
    assert law.product == pytest.approx(20, rel=0.01)
    assert law.server_mean == pytest.approx(20)
    assert law.verdict == "the law holds; the server agrees"


def test_littles_law_says_when_a_run_was_not_steady(tmp_path: Path) -> None:
    """Sojourns grow all along: those of the requests sent in the window end long after it."""
    rows = [answered(str(i), i * 0.1, ttft_sent_s=i * 0.2, tokens=2) for i in range(300)]
    law = summarize(write_run(tmp_path / "run", rows, state="stopped")).littles_law
    assert law is not None
    assert law.verdict.startswith("not steady")


def growing(sampled: float) -> tuple[list[RequestRecord], list[MetricSample]]:
    """Far from steady: 300 requests 0.1 s apart, the i-th stays 0.02·i s and the last ends at 35.9 s.

    They stay 897 s in all, so over the whole run 897 / 35.9 = 25 were in flight on average.
    """
    rows = [
        answered(str(i), i * 0.1, lag_s=0.0, ttft_sent_s=i * 0.02, tokens=1) for i in range(300)
    ]
    return rows, [worker_sample(float(t), M.WORKER_IN_FLIGHT, sampled) for t in range(36)]


def test_littles_law_holds_over_a_whole_run_that_was_never_steady(tmp_path: Path) -> None:
    rows, told = growing(sampled=25)
    law = summarize(write_run(tmp_path / "run", rows, told)).littles_law
    assert law is not None
    assert (law.window, law.in_flight_source) == ("whole run", "samples")
    assert law.product == pytest.approx(25, rel=0.01)
    assert law.verdict.startswith("the law holds")


def test_littles_law_does_not_hold_where_workers_saw_other_requests_than_the_rows(
    tmp_path: Path,
) -> None:
    rows, told = growing(sampled=40)
    law = summarize(write_run(tmp_path / "run", rows, told)).littles_law
    assert law is not None
    assert law.verdict.startswith("the law does not hold")


def test_the_timeline_offers_sends_and_completes_what_the_rows_say(tmp_path: Path) -> None:
    rows = [answered(str(i), i * 0.5) for i in range(40)] + [failed("x", 3.0, "rejected")]
    line = summarize(write_run(tmp_path / "run", rows, ended_s=20.0)).timeline
    assert line.offered_rps.sum() * line.width_s == 41
    assert line.sent_rps.sum() * line.width_s == 41
    assert line.completed_rps.sum() * line.width_s == 40
    assert line.failed_rps.sum() * line.width_s == 1
    assert len(line.offered_rps) <= 120


def test_in_flight_over_time_is_what_was_sent_and_has_not_ended(tmp_path: Path) -> None:
    rows = [
        answered("a", 1.0, ttft_sent_s=4.0, tokens=1),
        answered("b", 2.0, ttft_sent_s=1.0, tokens=1),
    ]
    instants_s, level = summarize(write_run(tmp_path / "run", rows)).timeline.in_flight
    assert np.interp([0.5, 1.5, 2.5, 4.0], instants_s, level).round().tolist() == [0, 1, 2, 1]
