"""One run of a search → one step, from rows whose truth is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadkit.analysis.knee.steps import Step, StepPlan, read_step
from loadkit.model import RequestRecord, ServerMetric, Slo
from synthetic_run import answered, failed, series, write_run

SLO = Slo("interactive", "ttft", 0.99, 0.5)
PLAN = StepPlan("sample", 5.0, 10.0, 40.0)
M = ServerMetric


def two_lanes(count: int = 250) -> list[RequestRecord]:
    """Five interactive requests and one of batch a second, for 50 s; each is done 0.3 s after it was due."""
    rows = [answered(f"i{n}", n * 0.2) for n in range(count)]
    return rows + [answered(f"b{n}", float(n), lane="batch") for n in range(50)]


def read(path: Path, rows: list[RequestRecord], *scaled: str, **more: Any) -> Step:
    plan = more.pop("plan", PLAN)
    samples = more.pop("samples", ())
    run = write_run(path / "run", rows, samples, **more)
    return read_step(run, plan, more.pop("slo", SLO), scaled)


def test_requests_count_that_arrive_in_the_measured_time(tmp_path: Path) -> None:
    step = read(tmp_path, two_lanes())
    assert len(step.latency_s) == 200
    assert step.latency_s == pytest.approx(0.101)
    assert step.missed(0.1).missed == 200
    assert step.missed(0.102).missed == 0


@pytest.mark.parametrize(
    ("scaled", "rps"), [((), 6.0), (("interactive",), 5.0), (("batch", "interactive"), 6.0)]
)
def test_answers_are_counted_of_the_lanes_whose_rate_is_offered(
    tmp_path: Path, scaled: tuple[str, ...], rps: float
) -> None:
    assert read(tmp_path, two_lanes(), *scaled).completed_rps == pytest.approx(rps, rel=0.01)


@pytest.mark.parametrize("status", ["rejected", "timeout", "error"])
def test_a_request_without_an_answer_misses_every_threshold(tmp_path: Path, status: str) -> None:
    rows = two_lanes()
    rows[100] = failed("i100", 20.0, status)
    step = read(tmp_path, rows)
    assert step.missed(1e9).missed == 1
    assert step.rejected == (status == "rejected")


def test_an_answer_without_the_metric_is_left_out_not_missed(tmp_path: Path) -> None:
    slo = Slo("interactive", "tpot", 0.99, 0.5)
    rows = two_lanes()
    rows[100] = answered("i100", 20.0, tokens=1)
    run = write_run(tmp_path / "run", rows)
    step = read_step(run, PLAN, slo)
    assert len(step.latency_s) == 199
    assert step.missed(0.5).missed == 0
    assert not step.is_silent


def test_a_metric_that_no_answer_has_makes_a_silent_step(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", two_lanes())
    step = read_step(run, PLAN, Slo("interactive", "queue_wait", 0.99, 0.5))
    assert step.is_silent
    assert not len(step.latency_s)


def test_a_growing_queue_overloads_unless_the_step_was_cut(tmp_path: Path) -> None:
    late = [answered(f"i{n}", n * 0.2, ttft_sent_s=0.1 + 0.2 * n) for n in range(250)]
    assert read(tmp_path / "whole", late).overloaded
    cut = StepPlan("bracket", 5.0, 10.0, 40.0, cut=True)
    step = read(tmp_path / "cut", late, plan=cut)
    assert (step.stability, step.overloaded) == ("unstable", False)


def test_a_lane_that_the_policy_spares_is_stable_in_an_overloaded_server(tmp_path: Path) -> None:
    rows = [answered(f"i{n}", n * 0.2) for n in range(250)]
    rows += [
        answered(f"b{n}", n * 0.1, lane="batch", ttft_sent_s=0.1 + 0.3 * n) for n in range(500)
    ]
    step = read(tmp_path, rows)
    assert (step.stability, step.overloaded) == ("stable", True)


def test_use_is_the_mean_share_over_the_measured_time(tmp_path: Path) -> None:
    told = [
        *series(M.REQUESTS_RUNNING, [0.0] * 10 + [4.0] * 41),
        *series(M.REQUESTS_WAITING, [0.0] * 10 + [1.0] * 41),
        *series(M.KV_USAGE_RATIO, [0.0] * 10 + [0.25] * 41),
        *series(M.STEP_TOKENS_SUM, [512.0 * t for t in range(51)]),
        *series(M.STEP_TOKENS_COUNT, [4.0 * t for t in range(51)]),
    ]
    target = {
        "url": "http://127.0.0.1:8000", "engine": "vllm",
        "capacity": {"max_num_seqs": 8, "max_num_batched_tokens": 1024},
    }  # fmt: skip
    step = read(tmp_path, two_lanes(), samples=told, target=target)
    assert step.use.told == pytest.approx({"slots": 0.5, "KV cache": 0.25, "token budget": 0.125})
    assert (step.running, step.most_running, step.in_system) == (4.0, 4.0, 5.0)


def test_littles_law_counts_all_lanes(tmp_path: Path) -> None:
    step = read(tmp_path, two_lanes())
    # Six requests a second, each 1 ms late, first token after 0.1 s, ten gaps of 20 ms, 1 ms to its end.
    assert step.littles_law == pytest.approx(6 * 0.302, rel=0.01)
    assert np.isfinite(step.e2e_s).all()
