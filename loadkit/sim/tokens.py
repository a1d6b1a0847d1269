"""The engine model on virtual time: the emulator's own scheduler, step by step, without waiting.

Follow-up turns go out when their parent has ended and the think time is over, as in a live run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from loadkit.core import EngineLimits, Event, Policy, Scheduler, StepCost
from loadkit.core import Sequence as EngineSequence
from loadkit.model import Send


@dataclass(frozen=True, slots=True)
class EngineModel:
    limits: EngineLimits
    cost: StepCost


class EngineSample(NamedTuple):
    t_s: float
    running: Mapping[str, int]
    """By lane."""
    waiting: int
    kv_usage: float
    """Share of the KV blocks in use."""
    steps: int
    """So far."""
    step_tokens: int
    """Computed in them."""


@dataclass(frozen=True, slots=True)
class Served:
    """One offered request and what became of it. Instants in seconds from the start."""

    send: Send
    seq: EngineSequence | None
    """None = no engine of this size could ever run it."""
    due_s: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TokenResult:
    policy: Policy
    model: EngineModel
    served: tuple[Served, ...]
    """In the order they were due. Requests due after the horizon are missing."""
    steps: int
    steps_with_preemption: int
    preemptions: int
    busy_slot_s: float
    end_s: float
    samples: tuple[EngineSample, ...]
    """About once a second."""

    @property
    def slot_use(self) -> float:
        slots = self.model.limits.max_num_seqs
        return self.busy_slot_s / (slots * self.end_s) if self.end_s else 0.0


def simulate_tokens(
    sends: Iterable[Send],
    policy: Policy,
    model: EngineModel,
    horizon_s: float | None = None,
    log: list[Event] | None = None,
) -> TokenResult:
    """Runs until everything has ended, or up to the horizon. `log` collects every decision."""
    run = _Run(list(sends), Scheduler(policy, model.limits), model, log)
    run.until(float("inf") if horizon_s is None else horizon_s)
    return run.result(policy)


class _Run:
    def __init__(
        self,
        sends: Sequence[Send],
        scheduler: Scheduler,
        model: EngineModel,
        log: list[Event] | None,
    ) -> None:
        self._scheduler, self._model, self._log = scheduler, model, log
        self._due: list[tuple[float, int, Send]] = [
            (send.scheduled_s, number, send)
            for number, send in enumerate(sends)
            if send.parent_id is None
        ]
        self._numbers = {send.request_id: number for number, send in enumerate(sends)}
        self._children: dict[str, list[Send]] = {}
        for send in sends:
            if send.parent_id is not None:
                self._children.setdefault(send.parent_id, []).append(send)
        self._due.sort()
        self._served: list[Served] = []
        self._now_s = self._busy_slot_s = 0.0
        self._steps = self._steps_with_preemption = self._preemptions = 0
        self._step_tokens = 0
        self._samples: list[EngineSample] = []
        self._lanes = dict.fromkeys((send.lane for send in sends), 0)

    def until(self, horizon_s: float) -> None:
        scheduler, cost = self._scheduler, self._model.cost
        self._arrive(0.0)
        while True:
            step = scheduler.begin_step(self._now_s)
            self._tell()
            if step is None and not self._due:
                return
            end_s = self._now_s + cost(step) if step else self._due[0][0]
            tokens = step.num_tokens if step else 0
            if end_s >= horizon_s:
                self._pass(horizon_s)
                return
            self._arrive(end_s)
            self._pass(end_s)
            if step:
                scheduler.finish_step(step, end_s)
                self._steps += 1
                self._step_tokens += tokens
                self._tell()

    def _pass(self, to_s: float) -> None:
        scheduler = self._scheduler
        self._busy_slot_s += len(scheduler.running) * (to_s - self._now_s)
        self._now_s = to_s
        if not self._samples or to_s - self._samples[-1][0] >= 1.0:
            used = scheduler.blocks.used_blocks / scheduler.blocks.num_blocks
            running = self._lanes | Counter(seq.lane for seq in scheduler.running)
            counts = (len(scheduler.waiting), used, self._steps, self._step_tokens)
            self._samples.append(EngineSample(to_s, running, *counts))

    def _arrive(self, until_s: float) -> None:
        """Offer what is due by then, each at its own instant."""
        while self._due and self._due[0][0] <= until_s:
            due_s, _, send = heappop(self._due)
            seq = _sequence(send, self._model.limits)
            try:
                self._scheduler.add(seq, due_s)
            except ValueError as error:
                self._served.append(Served(send, None, due_s, str(error)))
                self._release_children(send.request_id, due_s)
                continue
            self._served.append(Served(send, seq, due_s))
            self._tell()

    def _tell(self) -> None:
        events = self._scheduler.take_events()
        if self._log is not None:
            self._log.extend(events)
        evicted = 0
        for event in events:
            if event.kind == "preempted":
                evicted += 1
            elif event.kind in ("finished", "rejected", "expired"):
                self._release_children(event.seq.request_id, event.t_s)
        self._preemptions += evicted
        self._steps_with_preemption += evicted > 0

    def _release_children(self, request_id: str, now_s: float) -> None:
        """As the live driver: at its own instant or, if its parent was slow, think time after it."""
        for send in self._children.pop(request_id, ()):
            due_s = max(send.scheduled_s, now_s + (send.think_s or 0.0))
            heappush(self._due, (due_s, self._numbers[send.request_id], send))

    def result(self, policy: Policy) -> TokenResult:
        return TokenResult(
            policy,
            self._model,
            tuple(self._served),
            self._steps,
            self._steps_with_preemption,
            self._preemptions,
            self._busy_slot_s,
            self._now_s,
            tuple(self._samples),
        )


def _sequence(send: Send, limits: EngineLimits) -> EngineSequence:
    return EngineSequence(
        request_id=send.request_id,
        prompt_tokens=send.prompt_tokens,
        output_tokens=send.output_tokens,
        max_tokens=send.output_tokens,  # what a replay asks for
        lane=send.lane,
        tenant=send.tenant,
        priority=send.priority or 0,
        deadline_s=send.deadline_s,
        block_hashes=_block_hashes(send, limits.block_tokens) if limits.prefix_cache else [],
    )


def _block_hashes(send: Send, block_tokens: int) -> list[int]:
    """Equal hash = equal prompt so far, by the rules that prompts are made by: prefixes that the trace

    shares are shared, turns of one session extend one another, all else is unlike.
    """
    if not send.session and not send.prefix_ids:
        return []
    own = send.session or send.request_id
    per_id = send.prefix_block or 1
    shared_tokens = len(send.prefix_ids) * per_id
    hashes = []
    for index in range(send.prompt_tokens // block_tokens):
        end = (index + 1) * block_tokens
        if end <= shared_tokens:
            hashes.append(hash((send.prefix_ns, send.prefix_ids[(end - 1) // per_id], index)))
        else:
            hashes.append(hash((own, index)))
    return hashes
