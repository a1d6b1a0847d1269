"""The emulator's engine on fake time, with a workload of its own: too much for it, in two lanes."""

import asyncio
from collections.abc import Callable
from random import Random

from loadkit.clock import FakeClock
from loadkit.core import EngineLimits, Event, Scheduler, Sequence, StepCost, parse_policy
from loadkit.emulator.api import Ask
from loadkit.emulator.engine import Engine
from loadkit.emulator.exchange import Exchange
from loadkit.emulator.faults import Fault, FaultPlan
from loadkit.emulator.tokens import from_ids
from loadkit.model import Send

LIMITS = EngineLimits(
    max_num_seqs=6, max_num_batched_tokens=64, kv_blocks=40, block_tokens=4, max_model_len=128,
    chunk_tokens=32,
)  # fmt: skip
COST = StepCost(base_s=0.01, prefill_s_per_token=0.0005, decode_s_per_seq=0.001)


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


class ArrivingClock(FakeClock):
    """Fake time on whose way forward requests arrive, each at its own instant."""

    engine: Engine

    def __init__(self, coming: list[Send] | None = None) -> None:
        super().__init__()
        self.pending = (coming or sends())[::-1]

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


def engine_at_rest(
    policy: str,
    clock: ArrivingClock,
    listener: Callable[[Event], None],
    faults: tuple[Fault, ...] = (),
    limits: EngineLimits = LIMITS,
) -> Engine:
    """An engine that `clock` will bring its requests to."""
    clock.engine = Engine(
        lambda: Scheduler(parse_policy(policy), limits),
        COST,
        clock,
        FaultPlan(faults, 0.0),
        listener,
    )
    return clock.engine


async def run_out(engine: Engine, clock: ArrivingClock) -> None:
    """Serve until all has arrived and ended."""
    task = asyncio.create_task(engine.run())
    for _ in range(20_000):
        await asyncio.sleep(0)
        if engine.in_flight == 0:
            if not clock.pending:
                break
            await clock.arrive()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
