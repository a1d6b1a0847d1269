"""Counts of /metrics against what they count: the core's event log, the ledger, and each other."""

import asyncio
import json
import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest
from emulator_client import ask, get, post, wait_for
from emulator_on_fake_clock import LIMITS, ArrivingClock, engine_at_rest, run_out, sends
from prometheus_client.parser import text_string_to_metric_families

from conftest import StartEmulator
from loadkit.clock import FakeClock
from loadkit.core import EngineLimits, Event, Scheduler, Sequence, StepCost, parse_policy
from loadkit.emulator.engine import Engine
from loadkit.emulator.exposition import Exposition
from loadkit.emulator.faults import FaultPlan
from loadkit.emulator.lateness import Lateness
from loadkit.emulator.metrics import MAX_LANES, Metrics, prompt_class
from loadkit.model import Send

POLICIES = (
    "fifo,queue=5",
    "preempt",
    "preempt,drop-expired,batch.queue=8",
    "preempt,order=edf,queue=10,max-wait=1s,deadline",
    "priority,max-wait=200ms",
    "priority,codel=500ms/100ms",
)
SPLITS = {"rejected": "rejections", "expired": "drops", "preempted": "preemptions"}
TOTALS = {
    "rejections": "vllm:admission_rejections_total",
    "drops": "loadkit:expired_total",
    "preemptions": "vllm:num_preemptions_total",
}
Labels = dict[str, str]


class Told:
    """One answer of /metrics, read by prometheus-client."""

    def __init__(self, text: str) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def series(self, name: str) -> list[tuple[Labels, float]]:
        found = [(s.labels, s.value) for s in self._samples if s.name == name]
        assert found, name
        return found

    def by(self, name: str, *labels: str) -> Counter[tuple[str, ...]]:
        counts: Counter[tuple[str, ...]] = Counter()
        for values, count in self.series(name):
            counts[tuple(values[label] for label in labels)] += count  # type: ignore[assignment]
        return counts

    def total(self, name: str) -> float:
        return math.fsum(value for _, value in self.series(name))


def told_by(engine: Engine) -> Told:
    return Told(Exposition(engine.metrics, engine.scheduler, "m").text().decode())


def mixed() -> list[Send]:
    """Every twentieth request comes when its deadline has passed."""
    return [
        send._replace(deadline_s=send.scheduled_s - 0.1) if number % 20 == 7 else send
        for number, send in enumerate(sends())
    ]


def served(policy: str) -> tuple[Engine, list[Event]]:
    clock = ArrivingClock(mixed())
    events: list[Event] = []
    engine = engine_at_rest(policy, clock, events.append)
    asyncio.run(run_out(engine, clock))
    return engine, events


@pytest.mark.parametrize("policy", POLICIES)
def test_refusals_drops_and_evictions_by_lane_and_reason_are_those_of_the_event_log(
    policy: str,
) -> None:
    engine, events = served(policy)
    told = told_by(engine)

    for kind, name in SPLITS.items():
        logged = Counter((e.seq.lane, e.reason) for e in events if e.kind == kind)
        counted = told.by(f"loadkit:lane_{name}_total", "lane", "reason")
        assert +counted == logged
        assert told.total(TOTALS[name]) == logged.total()
    waits = told.by("loadkit:lane_queue_time_seconds_count", "lane")
    assert waits == Counter((e.seq.lane,) for e in events if e.kind == "scheduled")
    first = {e.seq for e in events if e.seq.first_token_s is not None}
    ttft = told.by("loadkit:lane_time_to_first_token_seconds_count", "lane", "prompt_tokens")
    assert ttft == Counter((seq.lane, "1-128") for seq in first)
    assert told.total("vllm:time_to_first_token_seconds_count") == len(first)


def test_every_reason_that_is_told_as_zero_does_happen_and_no_other() -> None:
    happened: dict[str, set[str]] = {name: set() for name in SPLITS.values()}
    for policy in POLICIES:
        for event in served(policy)[1]:
            if event.kind in SPLITS:
                happened[SPLITS[event.kind]].add(str(event.reason))
    idle = Told(Exposition(Metrics(), scheduler(LIMITS), "m").text().decode())

    for name, reasons in happened.items():
        zeros = idle.by(f"loadkit:lane_{name}_total", "lane", "reason")
        by_script = {"scripted"} if name == "rejections" else set()
        lanes = ("interactive", "batch")
        assert set(zeros) == {(lane, why) for lane in lanes for why in reasons | by_script}
        assert zeros.total() == 0


def test_while_it_serves_the_lanes_add_up_to_the_engine() -> None:
    clock = ArrivingClock()
    events: list[Event] = []

    def look(event: Event) -> None:
        events.append(event)
        if len(events) % 20:
            return
        told = told_by(engine)
        for lanes, whole in (
            ("loadkit:lane_requests_running", "vllm:num_requests_running"),
            ("loadkit:lane_requests_waiting", "vllm:num_requests_waiting"),
            ("loadkit:lane_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc"),
        ):
            assert told.total(lanes) == pytest.approx(told.total(whole), abs=1e-12)

    engine = engine_at_rest("reserve:2+preempt", clock, look)
    asyncio.run(run_out(engine, clock))
    assert len(events) > 200


def scheduler(limits: EngineLimits) -> Scheduler:
    return Scheduler(parse_policy("fcfs"), limits)


def test_a_block_that_two_lanes_share_counts_half_for_each() -> None:
    limits = EngineLimits(kv_blocks=20, block_tokens=4, max_model_len=64, prefix_cache=True)
    core = scheduler(limits)
    prefix = [1, 2]  # hashes of two full blocks
    for lane, prompt_tokens in (("interactive", 9), ("batch", 13)):
        core.add(Sequence(lane, prompt_tokens, 5, lane=lane, block_hashes=list(prefix)), 0.0)
        step = core.begin_step(0.0)
        assert step
        core.finish_step(step, 0.1)

    told = Told(Exposition(Metrics(), core, "m").text().decode())
    # 9 tokens: two shared blocks and one of its own; 13 tokens: the same two and two of its own.
    assert told.by("loadkit:lane_kv_cache_usage_ratio", "lane") == {
        ("interactive",): pytest.approx((2 / 2 + 1) / 20),
        ("batch",): pytest.approx((2 / 2 + 2) / 20),
    }
    assert told.total("vllm:kv_cache_usage_perc") == 5 / 20


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (1, "1-128"),
        (128, "1-128"),
        (129, "129-512"),
        (2048, "513-2048"),
        (8192, "2049-8192"),
        (8193, "8193-32768"),
        (32_769, "32769-"),
    ],
)
def test_prompt_lengths_fall_into_disjoint_classes(tokens: int, name: str) -> None:
    assert prompt_class(tokens) == name


def test_lane_names_are_bounded_even_where_nothing_starts() -> None:
    metrics = Metrics()
    for number in range(100):
        seq = Sequence(f"r{number}", 1, 1, lane=f"lane{number}")
        metrics.event(Event(0.0, "rejected", seq, reason="queue_full"))
    told = Told(Exposition(metrics, scheduler(LIMITS), "m").text().decode())

    lanes = {lane for lane, _ in told.by("loadkit:lane_rejections_total", "lane", "reason")}
    assert len(lanes) == MAX_LANES + 1
    assert told.by("loadkit:lane_rejections_total", "lane")["other",] == 100 - (MAX_LANES - 2)
    assert told.total("vllm:admission_rejections_total") == 100


class LateClock(FakeClock):
    """Wakes by so much too late, sleep after sleep."""

    def __init__(self, late_s: list[float]) -> None:
        super().__init__()
        self._late_s = late_s[::-1]

    async def sleep_until(self, instant_s: float) -> None:
        await super().sleep_until(max(instant_s, self.now_s()))
        self._now_s += self._late_s.pop() if self._late_s else 0.0


def test_lateness_does_not_add_up_until_the_engine_is_behind_by_a_whole_step() -> None:
    clock = LateClock([0.0, 0.004, 0.0, 0.025])
    engine = Engine(lambda: scheduler(LIMITS), StepCost(0.01, 0.0, 0.0), clock, FaultPlan((), 0.0))
    coming = ArrivingClock([Send("r", 0.0, "batch", 4, 7)])
    coming.engine = engine

    async def serve() -> None:
        await coming.arrive()
        await run_out(engine, coming)

    asyncio.run(serve())
    # Deadlines at 10, 20, … 70 ms. Woken at 10, 24, 30, 65: 50 and 60 have passed by then.
    told = told_by(engine)
    assert told.total("loadkit:step_lateness_seconds_count") == 7
    assert told.total("loadkit:step_lateness_seconds_sum") == pytest.approx(0.049)  # 4+25+15+5 ms
    assert told.total("loadkit:clock_lateness_seconds") == pytest.approx(0.0, abs=1e-12)
    assert told.total("loadkit:clock_lateness_max_seconds") == pytest.approx(0.025)
    assert told.total("loadkit:clock_overrun_steps_total") == 2
    assert told.total("loadkit:clock_backlog_max_seconds") == pytest.approx(0.015)


def test_quantiles_of_lateness_are_at_most_five_percent_too_high() -> None:
    rng = Random(5)
    seen = [rng.lognormvariate(-7.0, 1.5) for _ in range(5000)]
    lateness = Lateness()
    for late_s in seen:
        lateness.step(late_s, 0.0)

    summary = lateness.summary()
    for name, share in (("lateness_p50_s", 0.50), ("lateness_p99_s", 0.99)):
        true_s = float(np.quantile(seen, share, method="inverted_cdf"))
        assert true_s <= summary[name] <= 1.0501 * true_s
    assert (summary["steps"], summary["lateness_max_s"]) == (5000, max(seen))
    assert Lateness().summary() == {"steps": 0}


ODD_LANE = 'a"b\\\nc'


def test_counters_by_lane_agree_with_the_ledger_also_for_what_the_script_refused(
    emulator: StartEmulator, tmp_path: Path
) -> None:
    (tmp_path / "speed.toml").write_text("base_s = 0.005\nkv_blocks = 64\n")
    server = emulator(
        "--profile", str(tmp_path / "speed.toml"), "--slots", "2", "--no-prefix-cache",
        "--policy", "priority,preempt,queue=6,drop-expired", "--fault", "refuse:every=9",
    )  # fmt: skip
    lanes = ["interactive", "batch", "batch", "a%22b%5C%0Ac"]

    def one(lane: str, tokens: int = 10, **more: str) -> int:
        return post(server.port, ask(tokens, prompt=60), X_Loadkit_Lane=lane, **more).status

    with ThreadPoolExecutor(12) as pool:
        both_slots = [pool.submit(one, "batch", 300) for _ in range(2)]
        wait_for(server.port, "vllm:num_requests_running", 2)
        statuses = Counter([one("batch", X_Loadkit_Deadline_S="0.02"), one("interactive")])
        statuses.update(pool.map(one, [lanes[number % 4] for number in range(116)]))
        statuses.update(slot.result() for slot in both_slots)
    statuses[one(lanes[-1])] += 1
    told = Told(get(server.port, "/metrics").body.decode())
    rows = server.ledger().values()

    for status, name in (("rejected", "rejections"), ("expired", "drops")):
        written = Counter((r["lane"], r["refusal"]) for r in rows if r["status"] == status)
        assert +told.by(f"loadkit:lane_{name}_total", "lane", "reason") == written
        assert told.total(TOTALS[name]) == written.total()
        assert written
    evicted: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        evicted[row["lane"],] += row["preemptions"]
    assert +told.by("loadkit:lane_preemptions_total", "lane") == +evicted
    assert told.total("vllm:num_preemptions_total") == evicted.total() > 0
    refused = told.by("loadkit:lane_rejections_total", "reason")
    assert refused["scripted",] == sum(number % 9 == 8 for number in range(121))
    assert statuses[503] == told.total("vllm:admission_rejections_total")
    assert told.by("loadkit:lane_queue_time_seconds_count", "lane")[ODD_LANE,] > 0


def test_the_ledger_closes_each_life_of_the_engine_with_its_lateness(
    emulator: StartEmulator,
) -> None:
    server = emulator("--profile", "tiny", "--fault", "restart:at=1500ms,for=100ms")
    post(server.port, ask(20, prompt=8))
    told = Told(get(server.port, "/metrics").body.decode())
    time.sleep(1.7)
    post(server.port, ask(3, prompt=8))
    server.stop()
    written = [json.loads(line) for line in server.ledger_path.read_bytes().splitlines()]
    first, second = (row["clock"] for row in written if "clock" in row)

    assert first["steps"] == told.total("loadkit:step_lateness_seconds_count") == 20
    assert first["lateness_max_s"] == told.total("loadkit:clock_lateness_max_seconds")
    assert 0 < first["lateness_p50_s"] <= first["lateness_p99_s"] <= first["lateness_max_s"]
    assert second["steps"] == 3
    assert "clock" in written[-1]
