"""One core, two clocks: the live loop on a fake clock logs what a virtual-time loop logs."""

import asyncio
from dataclasses import replace

import pytest
from emulator_on_fake_clock import COST, LIMITS, ArrivingClock, engine_at_rest, run_out, sends

from loadkit.core import Event, parse_policy
from loadkit.emulator.faults import Fault
from loadkit.sim import EngineModel, simulate_tokens

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
"""Instant, decision, request, tokens, and why it was refused, dropped or evicted."""
Log = list[Row]


def row(event: Event) -> Row:
    return (event.t_s, event.kind, event.seq.request_id, event.tokens, event.reason)


def in_virtual_time(policy: str, stretch: float = 1.0) -> Log:
    events: list[Event] = []
    cost = replace(COST, base_s=COST.base_s * stretch)
    simulate_tokens(sends(), parse_policy(policy), EngineModel(LIMITS, cost), log=events)
    return [row(event) for event in events]


async def on_a_fake_clock(policy: str, faults: tuple[Fault, ...] = ()) -> Log:
    clock = ArrivingClock()
    log: Log = []
    engine = engine_at_rest(policy, clock, lambda event: log.append(row(event)), faults)
    await run_out(engine, clock)
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
