"""One core, two clocks: the live loop on a fake clock logs what a virtual-time loop logs."""

import asyncio
from random import Random

import pytest

from loadkit.clock import FakeClock
from loadkit.core import POLICIES, EngineLimits, Scheduler, Sequence, StepCost
from loadkit.emulator.api import Ask
from loadkit.emulator.engine import Engine
from loadkit.emulator.exchange import Exchange
from loadkit.emulator.faults import Fault, FaultPlan
from loadkit.emulator.tokens import from_ids

LIMITS = EngineLimits(
    max_num_seqs=6, max_num_batched_tokens=64, kv_blocks=40, block_tokens=4, max_model_len=128,
    chunk_tokens=32,
)  # fmt: skip
COST = StepCost(base_s=0.01, prefill_s_per_token=0.0005, decode_s_per_seq=0.001)

Log = list[tuple[float, str, str, int]]


def arrivals() -> list[tuple[float, Sequence]]:
    rng = Random(11)
    found: list[tuple[float, Sequence]] = []
    now_s = 0.0
    for number in range(60):
        now_s += rng.expovariate(12.0)
        prompt, output = rng.randint(1, 60), rng.randint(1, 40)
        seq = Sequence(f"r{number}", prompt, output, priority=rng.randint(0, 2))
        found.append((now_s, seq))
    return found


def in_virtual_time(policy: str, stretch: float = 1.0) -> Log:
    scheduler = Scheduler(POLICIES[policy], LIMITS)
    log: Log = []
    pending, now_s = arrivals()[::-1], 0.0

    def tell() -> None:
        log.extend((e.t_s, e.kind, e.seq.request_id, e.tokens) for e in scheduler.take_events())

    while True:
        step = scheduler.begin_step(now_s)
        tell()
        if step is None and not pending:
            return log
        end_s = now_s + COST(step) * stretch if step else pending[-1][0]
        while pending and pending[-1][0] <= end_s:
            arrival_s, seq = pending.pop()
            scheduler.add(seq, arrival_s)
            tell()
        now_s = end_s
        if step:
            scheduler.finish_step(step, now_s)
            tell()


class ArrivingClock(FakeClock):
    """Fake time on whose way forward requests arrive, each at its own instant."""

    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self.pending = arrivals()[::-1]

    async def sleep_until(self, instant_s: float) -> None:
        while self.pending and self.pending[-1][0] <= instant_s:
            await self.arrive()
        await super().sleep_until(instant_s)

    async def arrive(self) -> None:
        arrival_s, seq = self.pending.pop()
        await super().sleep_until(arrival_s)
        self.engine.submit(Exchange(asked(seq), seq, self))


def asked(seq: Sequence) -> Ask:
    return Ask(
        api="completions",
        prompt=from_ids([1]),
        max_tokens=seq.output_tokens,
        output_tokens=seq.output_tokens,
        stream=False,
        include_usage=False,
        continuous_usage=False,
        priority=seq.priority,
        cache_salt=None,
        lane=seq.lane,
        tenant=None,
        deadline_in_s=None,
    )


async def on_a_fake_clock(policy: str, faults: tuple[Fault, ...] = ()) -> Log:
    clock = ArrivingClock()
    log: Log = []
    engine = clock.engine = Engine(
        lambda: Scheduler(POLICIES[policy], LIMITS),
        COST,
        clock,
        FaultPlan(faults, 0.0),
        lambda e: log.append((e.t_s, e.kind, e.seq.request_id, e.tokens)),
    )
    task = asyncio.create_task(engine.run())
    for _ in range(20_000):
        await asyncio.sleep(0)
        if engine.in_flight == 0:
            if not clock.pending:
                break
            await clock.arrive()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return log


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_live_loop_and_virtual_time_log_the_same_decisions_at_the_same_instants(
    policy: str,
) -> None:
    live, virtual = asyncio.run(on_a_fake_clock(policy)), in_virtual_time(policy)
    assert live == virtual
    kinds = {kind for _, kind, _, _ in live}
    assert kinds == {"queued", "scheduled", "preempted", "resumed", "finished"}
    assert live != in_virtual_time(policy, stretch=1 + 1e-6)


def test_the_policies_decide_differently_on_these_arrivals() -> None:
    assert in_virtual_time("fcfs") != in_virtual_time("priority")


def test_a_stall_moves_everything_after_it_and_nothing_before() -> None:
    plain = asyncio.run(on_a_fake_clock("fcfs"))
    stalled = asyncio.run(on_a_fake_clock("fcfs", (Fault("stall", at_s=1.0, for_s=2.0),)))
    assert [row for row in stalled if row[0] < 1.0] == [row for row in plain if row[0] < 1.0]
    decided = [t_s for t_s, kind, _, _ in stalled if kind != "queued"]
    assert not any(1.02 < t_s < 3.0 for t_s in decided)
    assert len(stalled) >= len(plain) - 20
