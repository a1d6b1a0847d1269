"""Slot level: two published tables to the last digit, queueing theory, and one way held against the other."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from loadkit.cli import app
from loadkit.core import parse_policy
from loadkit.sim import SlotOptions, Workload, simulate_slots, summarize_jobs
from loadkit.sim.outcomes import State
from loadkit.sim.slots import by_counting, by_jobs

TEXTBOOK = Path("../shared/data/textbook")
LANES = TEXTBOOK / "lanes_seed3.csv.gz"
needs_textbook = pytest.mark.skipif(not LANES.exists(), reason="no ../shared/data/textbook")

LANES_TABLE = {
    # p50, p99, max, late %, batch done, evictions, slot use %
    "fifo": (15368, 18576, 18623, 100.0, 10_000, 0, 100.0),
    "priority": (2, 22, 54, 47.4244, 6_501, 0, 100.0),
    "reserve:4": (1, 15, 36, 29.1111, 6_284, 0, 98.15),
    "reserve:8": (0, 7, 19, 11.1251, 5_859, 0, 94.47),
    "reserve:16": (0, 2, 5, 0.3884, 4_670, 0, 84.07),
    "preempt": (0, 0, 0, 0.0, 3_944, 20_474, 100.0),
    "reserve:8+preempt": (0, 0, 0, 0.0, 5_139, 3_951, 92.48),
}
QUEUE_TABLE = {
    ("20_unbounded", "fifo"): (1.0044, 10.8219, 11_922, 0),
    ("30_unbounded", "fifo"): (1.0150, 10.6997, 17_955, 0),
    ("35_unbounded", "fifo"): (1.0811, 10.4099, 20_964, 0),
    ("38_unbounded", "fifo"): (3.1756, 12.5639, 22_732, 0),
    ("40_unbounded", "fifo"): (18.1652, 30.7441, 22_973, 0),
    ("45_unbounded", "fifo"): (49.2315, 88.1965, 23_000, 0),
    ("40_bounded", "fifo,queue=100"): (3.1805, 12.6467, 22_777, 1_198),
    ("45_bounded", "fifo,queue=100"): (3.4756, 12.8032, 22_965, 3_920),
}


def told(*args: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["sim", *args, "--json"])
    assert result.exit_code == 0, result.output
    policies: list[dict[str, Any]] = json.loads(result.stdout)["policies"]
    return policies


@needs_textbook
def test_the_lanes_table_comes_out_exactly() -> None:
    policies = [flag for name in LANES_TABLE for flag in ("--policy", name)]
    options = ["--slots", "64", "--tick", "1s", "--preempt-cost", "15s", "--horizon", "6h"]
    found = {}
    for of in told(str(LANES), *options, *policies):
        lane = of["lanes"]["interactive"]
        assert lane["offered"] == 75_442
        found[of["policy"]] = (
            *(lane["wait_s"][name] for name in ("p50", "p99", "max")),
            round(100 * lane["late_share"], 4),
            of["lanes"]["batch"]["completed"],
            of["preemptions"],
            round(100 * of["slot_use"], 2),
        )
    assert found == LANES_TABLE


@needs_textbook
@pytest.mark.parametrize("case", QUEUE_TABLE, ids=lambda case: case[0])
def test_the_queue_table_comes_out_to_the_fourth_decimal(case: tuple[str, str]) -> None:
    name, policy = case
    path = TEXTBOOK / f"queue_{name}.csv.gz"
    (of,) = told(str(path), "--slots", "64", "--horizon", "600s", "--policy", policy)
    lane = of["lanes"]["interactive"]
    latency = (round(lane["latency_s"]["p50"], 4), round(lane["latency_s"]["p99"], 4))
    assert (*latency, lane["completed"], lane["rejected"]) == QUEUE_TABLE[case]


@needs_textbook
def test_continuous_time_agrees_with_ticks_within_a_tick() -> None:
    """Arrivals and services of this trace are whole seconds: the instants are the same."""
    flags = [str(LANES), "--preempt-cost", "15s", "--horizon", "6h", "--policy", "reserve:8"]
    (ticks,), (continuous,) = told(*flags, "--tick", "1s"), told(*flags)
    for name in ("p50", "p99", "max"):
        in_ticks = ticks["lanes"]["interactive"]["wait_s"][name]
        assert abs(in_ticks - continuous["lanes"]["interactive"]["wait_s"][name]) <= 1.0


@needs_textbook
def test_without_aging_the_oldest_batch_job_starves_and_with_it_it_does_not() -> None:
    flags = [str(LANES), "--tick", "1s", "--slots", "40", "--horizon", "6h"]
    plain, aged, floor = told(
        *flags, "--policy", "priority", "--policy", "priority,aging=1h", "--policy",
        "priority,floor=8",
    )  # fmt: skip
    started = [of["lanes"]["batch"]["started"] for of in (plain, aged, floor)]
    # 40 slots are fewer than interactive work needs in the rush: batch then gets nothing at all.
    assert started[0] < started[1]
    assert started[0] < started[2]
    assert aged["lanes"]["batch"]["started"] > 5_000


def workload(
    arrival_s: Any, service_s: Any, lane: Any = None, tenant: list[str | None] | None = None
) -> Workload:
    arrival_s, service_s = np.asarray(arrival_s, float), np.asarray(service_s, float)
    code = np.zeros(len(arrival_s), int) if lane is None else np.asarray(lane, int)
    ids = [f"r{number}" for number in range(len(arrival_s))]
    return Workload(ids, arrival_s, service_s, ["interactive", "batch"], code, tenant)


WORK = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(0, 1)), min_size=1, max_size=60
)


@settings(max_examples=300, deadline=None)
@given(
    WORK,
    st.sampled_from(["fifo", "priority", "reserve:1", "reserve:2", "preempt", "reserve:1+preempt"]),
    st.integers(3, 6),
    st.sampled_from([None, 1.0, 0.1]),
    st.sampled_from([None, 40.0]),
)
def test_counting_decides_as_looking_at_every_job_does(
    rows: list[tuple[int, int, int]],
    text: str,
    slots: int,
    tick_s: float | None,
    horizon_s: float | None,
) -> None:
    rows = sorted(rows)
    work = workload([r[0] / 2 for r in rows], [r[1] / 3 for r in rows], [r[2] for r in rows])
    options = SlotOptions(slots, tick_s, preempt_cost_s=2.0, horizon_s=horizon_s)
    policy = parse_policy(text)
    counted, looked = by_counting(work, policy, options), by_jobs(work, policy, options)
    for name in ("arrival_s", "start_s", "end_s", "state", "preemptions"):
        ours, theirs = getattr(counted.outcomes, name), getattr(looked.outcomes, name)
        np.testing.assert_array_equal(ours, theirs, name)
    assert counted.busy_slot_s == pytest.approx(looked.busy_slot_s)
    assert counted.end_s == looked.end_s


@settings(max_examples=150, deadline=None)
@given(
    WORK,
    st.sampled_from(
        [
            "fifo", "sjf", "fair", "edf", "adaptive-lifo=3s", "static", "priority,aging=9s,floor=1",
            "preempt,victim=most-remaining,min-run=2s,floor=1", "sjf,priority,reserve:1+preempt",
            "queue=2", "codel=5s", "max-wait=4s,priority,batch.queue=3",
        ]
    ),
    st.integers(2, 4),
)  # fmt: skip
def test_no_slot_serves_two_nobody_is_lost_and_work_is_conserved(
    rows: list[tuple[int, int, int]], text: str, slots: int
) -> None:
    rows = sorted(rows)
    work = workload([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])
    result = by_jobs(work, parse_policy(text), SlotOptions(slots, preempt_cost_s=2.0))
    of = result.outcomes
    done = of.state == State.FINISHED
    assert np.isin(of.state, [State.FINISHED, State.REJECTED, State.EXPIRED]).all()
    assert result.busy_slot_s == pytest.approx(
        work.service_s[done].sum() + 2.0 * result.preemptions
    )
    assert result.busy_slot_s <= slots * result.end_s + 1e-6
    span_s = (of.end_s - of.start_s)[done]
    whole = of.preemptions[done] == 0
    assert span_s[whole] == pytest.approx(work.service_s[done][whole])


def test_waits_of_64_exponential_servers_agree_with_erlang_c() -> None:
    """P(wait) = C(64, 64 rho); P(wait > t) = C exp(-64 (1 - rho) t / S), S = exp(0.5) s."""
    rng = np.random.default_rng(5)
    mean_s = np.exp(0.5)
    for load, p_wait, p99_s in ((0.8, 0.05606, 0.2220), (0.9, 0.31066, 0.8852)):
        jobs = 400_000
        arrival_s = np.cumsum(rng.exponential(mean_s / (64 * load), jobs))
        work = workload(arrival_s, rng.exponential(mean_s, jobs))
        result = simulate_slots(work, parse_policy("fifo"), SlotOptions(64))
        wait_s = (result.outcomes.start_s - arrival_s)[20_000:]
        assert (wait_s > 0).mean() == pytest.approx(p_wait, rel=0.12)
        assert np.quantile(wait_s, 0.99) == pytest.approx(p99_s, rel=0.15)


def poisson(rng: np.random.Generator, rate_rps: float, span_s: float) -> Any:
    return np.sort(rng.uniform(0, span_s, rng.poisson(rate_rps * span_s)))


def test_under_fair_order_a_flood_waits_behind_itself_and_under_fcfs_behind_nobody() -> None:
    rng = np.random.default_rng(2)
    calm_s = {who: poisson(rng, 9.0, 600.0) for who in "abcd"}
    calm_work_s = {who: rng.exponential(1.0, len(times)) for who, times in calm_s.items()}
    flood_s = np.sort(rng.uniform(200.0, 300.0, 12_000))

    def latency_p99_s(policy: str, *, flooded: bool) -> float:
        extra = {"z": flood_s} if flooded else {}
        at_s = np.concatenate(list((calm_s | extra).values()))
        service_s = np.concatenate([*calm_work_s.values(), np.ones(12_000 * flooded)])
        who = np.concatenate([[name] * len(times) for name, times in (calm_s | extra).items()])
        rows = np.argsort(at_s, kind="stable")
        work = workload(at_s[rows], service_s[rows], tenant=who[rows].tolist())
        of = simulate_slots(work, parse_policy(policy), SlotOptions(64)).outcomes
        return float(np.quantile((of.end_s - of.arrival_s)[who[rows] != "z"], 0.99))

    alone = latency_p99_s("fair", flooded=False)
    assert latency_p99_s("fair", flooded=True) <= 1.1 * alone
    assert latency_p99_s("fifo", flooded=True) > 10 * alone


def test_overload_with_a_bounded_queue_completes_as_much_with_bounded_latency() -> None:
    rng = np.random.default_rng(4)
    at_s = poisson(rng, 1.15 * 64 / 2.0, 1800.0)
    work = workload(
        at_s, stats.lognorm.rvs(0.8, scale=2 / np.exp(0.32), size=len(at_s), random_state=4)
    )
    options = SlotOptions(64, horizon_s=1800.0)
    unbounded, bounded = (
        summarize_jobs(simulate_slots(work, parse_policy(text), options), 2.0)["lanes"]["interactive"]
        for text in ("fifo", "fifo,queue=100")
    )  # fmt: skip
    assert bounded["completed"] == pytest.approx(unbounded["completed"], rel=0.01)
    assert bounded["latency_s"]["p99"] < 20 < unbounded["latency_s"]["p99"]
    assert bounded["refusals"] == {"queue_full": bounded["rejected"]}


def test_costs_grow_with_eviction_cost_and_shrink_with_shorter_batch_jobs(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"0,batch,{20 + n % 7}" for n in range(200)]
    rows += [f"{n},interactive,3" for n in range(0, 900, 2)]
    path.write_text("arrival_s,lane,service_s\n" + "\n".join(rows) + "\n")
    base = [str(path), "--slots", "4", "--horizon", "15m", "--policy", "preempt"]
    done = [
        told(*base, *more)[0]["lanes"]["batch"]["completed"]
        for more in ([], ["--preempt-cost", "60s"], ["--batch-service", "0.5x"])
    ]
    assert done[1] < done[0] < done[2]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--policy", "nonsense"], "unknown policy word"),
        (["--policy", "reserve:64"], "headroom"),
        (["--policy", "reserve:9blocks"], "in slots"),
        (["--policy", "none.toml"], "cannot be read"),
        (["--level", "deep"], "unknown level"),
        (["--tick", "0s"], "not above 0"),
        (["--lane", "batch"], "is not in the trace"),
        (["--level", "token"], "nothing is left"),
    ],
)
def test_wrong_usage_is_one_message_with_a_hint(
    tmp_path: Path, flags: list[str], word: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,service_s\n0,1\n1,2.5\n")
    result = CliRunner().invoke(app, ["sim", str(path), *flags])
    assert result.exit_code != 0
    assert word in str(result.exception)
    assert getattr(result.exception, "hint", "")


def test_a_job_that_takes_no_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,service_s\n0,1\n1,0\n")
    result = CliRunner().invoke(app, ["sim", str(path)])
    assert "holds its slot for 0.0 s" in str(result.exception)


def test_a_grid_that_is_no_whole_number_keeps_instants_apart_from_rounding() -> None:
    work = workload([0.0, 0.15, 0.31], [0.3, 0.3, 0.3])
    of = by_jobs(work, parse_policy("fifo"), SlotOptions(1, tick_s=0.1)).outcomes
    assert of.start_s == pytest.approx([0.0, 0.3, 0.6])
    assert replace(of, refusal=None).end_s == pytest.approx([0.3, 0.6, 0.9])
