"""One core, two clocks: the live loop on a fake clock logs what a virtual-time loop logs."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from loadkit.clock import FakeClock
from loadkit.core import EngineLimits, Event, Scheduler, Sequence, StepCost, parse_policy
from loadkit.emulator.api import Ask
from loadkit.emulator.engine import Engine
from loadkit.emulator.exchange import Exchange
from loadkit.emulator.faults import Fault, FaultPlan
from loadkit.emulator.tokens import from_ids
from loadkit.model import Send
from loadkit.sim import EngineModel, simulate_tokens

LIMITS = EngineLimits(
    max_num_seqs=6, max_num_batched_tokens=64, kv_blocks=40, block_tokens=4, max_model_len=128,
    chunk_tokens=32,
)  # fmt: skip
COST = StepCost(base_s=0.01, prefill_s_per_token=0.0005, decode_s_per_seq=0.001)

EVERY = (
    "fcfs",
    "priority",
    "sjf",
    "edf",
    "fair",
    "fair,weight.a=3",
    "adaptive-lifo=200ms",
    "reserve:2",
    "preempt",
    "reserve:2+preempt",
    "reserve:10blocks+preempt,victim=largest-kv,min-run=50ms",
    "priority,aging=1s,floor=2",
    "fifo,queue=5",
    "priority,max-wait=200ms",
    "priority,deadline",
    "fifo,drop-expired",
    "priority,codel=500ms/100ms",
    "fifo,static",
    "fifo,favour=prefill",
)

Row = tuple[float, str, str, int, str | None]
"""Instant, decision, request, tokens, and why it was refused or dropped."""
Log = list[Row]


def sends() -> list[Send]:
    """Two lanes, three tenants, priorities, and a deadline for every third: too much for the engine."""
    rng = Random(11)
    found: list[Send] = []
    now_s = 0.0
    for number in range(80):
        now_s += rng.expovariate(12.0)
        found.append(
            Send(
                f"r{number}",
                now_s,
                rng.choice(["interactive", "batch"]),
                rng.randint(1, 60),
                rng.randint(1, 40),
                tenant=rng.choice("abb"),
                priority=rng.randint(0, 2),
                deadline_s=now_s + rng.uniform(0.5, 4.0) if number % 3 == 0 else None,
            )
        )
    return found


def sequence(send: Send) -> Sequence:
    return Sequence(
        send.request_id,
        send.prompt_tokens,
        send.output_tokens,
        max_tokens=send.output_tokens,
        lane=send.lane,
        tenant=send.tenant,
        priority=send.priority or 0,
        deadline_s=send.deadline_s,
    )


def row(event: Event) -> Row:
    seq = event.seq
    why = seq.refusal if event.kind in ("rejected", "expired") else None
    return (event.t_s, event.kind, seq.request_id, event.tokens, why)


def in_virtual_time(policy: str, stretch: float = 1.0) -> Log:
    events: list[Event] = []
    cost = replace(COST, base_s=COST.base_s * stretch)
    simulate_tokens(sends(), parse_policy(policy), EngineModel(LIMITS, cost), log=events)
    return [row(event) for event in events]


class ArrivingClock(FakeClock):
    """Fake time on whose way forward requests arrive, each at its own instant."""

    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self.pending = sends()[::-1]

    async def sleep_until(self, instant_s: float) -> None:
        while self.pending and self.pending[-1].scheduled_s <= instant_s:
            await self.arrive()
        await super().sleep_until(instant_s)

    async def arrive(self) -> None:
        send = self.pending.pop()
        seq = sequence(send)
        await super().sleep_until(send.scheduled_s)
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
        lambda: Scheduler(parse_policy(policy), LIMITS),
        COST,
        clock,
        FaultPlan(faults, 0.0),
        lambda event: log.append(row(event)),
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


@pytest.mark.parametrize("policy", EVERY)
def test_live_loop_and_simulator_log_the_same_decisions_at_the_same_instants(policy: str) -> None:
    live = asyncio.run(on_a_fake_clock(policy))

    assert live == in_virtual_time(policy)
    assert live != in_virtual_time(policy, stretch=1 + 1e-6)


def test_among_the_decisions_compared_is_every_kind_there_is() -> None:
    logs = {policy: in_virtual_time(policy) for policy in EVERY}

    kinds = {kind for log in logs.values() for _, kind, *_ in log}
    assert kinds == {
        "queued",
        "scheduled",
        "preempted",
        "resumed",
        "finished",
        "rejected",
        "expired",
    }
    assert len({tuple(log) for log in logs.values()}) == len(EVERY)  # no two decide alike


def test_a_stall_moves_everything_after_it_and_nothing_before() -> None:
    plain = asyncio.run(on_a_fake_clock("fcfs"))
    stalled = asyncio.run(on_a_fake_clock("fcfs", (Fault("stall", at_s=1.0, for_s=2.0),)))
    assert [row for row in stalled if row[0] < 1.0] == [row for row in plain if row[0] < 1.0]
    decided = [t_s for t_s, kind, *_ in stalled if kind != "queued"]
    assert not any(1.02 < t_s < 3.0 for t_s in decided)
    assert len(stalled) >= len(plain) - 20
