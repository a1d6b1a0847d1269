"""The core on a clock: steps end at absolute instants, tokens go to their exchanges."""

import asyncio
from collections.abc import Callable

from loadkit.clock import Clock
from loadkit.core import Event, Refusal, Scheduler, Sequence, Step, StepCost, Token
from loadkit.emulator.exchange import Exchange
from loadkit.emulator.faults import FaultPlan
from loadkit.emulator.metrics import Metrics

Listener = Callable[[Event], None]


class Engine:
    """Runs one scheduler at a time; `restart` puts a fresh one in its place.

    Deadlines chain from the previous deadline, not from now: sleep error must not accumulate. How
    late each step really ended is measured and exported (`lateness`).
    """

    def __init__(
        self,
        make_scheduler: Callable[[], Scheduler],
        cost: StepCost,
        clock: Clock,
        faults: FaultPlan,
        listener: Listener | None = None,
    ) -> None:
        self.scheduler = make_scheduler()
        self.metrics = Metrics()
        self._make_scheduler = make_scheduler
        self._cost = cost
        self._clock = clock
        self._faults = faults
        self._listener = listener
        self._exchanges: dict[Sequence, Exchange] = {}
        self._wake = asyncio.Event()

    @property
    def in_flight(self) -> int:
        return len(self._exchanges)

    def submit(self, exchange: Exchange) -> Refusal | None:
        """A request arrives at the engine now."""
        refusal = self.scheduler.add(exchange.seq, self._clock.now_s())
        if refusal is None:
            self._exchanges[exchange.seq] = exchange
            self._wake.set()
        self._tell()
        return refusal

    def refuse(self, seq: Sequence, refusal: Refusal) -> None:
        """It is turned away before the scheduler sees it; counts like any other refusal."""
        now_s = self._clock.now_s()
        seq.arrival_s, seq.ended_s, seq.state = now_s, now_s, "rejected"
        seq.refusal, seq.retry_after_s = refusal
        self.metrics.event(Event(now_s, "rejected", seq, reason=refusal.reason))

    def cancel(self, seq: Sequence) -> None:
        """The client has gone: free what it holds at once."""
        if self._exchanges.pop(seq, None):
            self.scheduler.cancel(seq, self._clock.now_s())
            self.metrics.aborts += 1
            self._tell()

    def restart(self) -> None:
        """As if the process had died: every stream is cut, every count begins at zero."""
        self.end_all()
        self.scheduler = self._make_scheduler()
        self.metrics = Metrics()

    def end_all(self) -> None:
        """Cut every stream."""
        for exchange in self._exchanges.values():
            exchange.end("reset")
        self._exchanges.clear()

    async def run(self) -> None:
        """Serve for ever; ends by cancellation."""
        clock, faults = self._clock, self._faults
        deadline_s = clock.now_s()
        while True:
            if (resume_s := faults.resume_s(clock.now_s())) > clock.now_s():
                await clock.sleep_until(resume_s)
                deadline_s = resume_s
            scheduler = self.scheduler
            step = scheduler.begin_step(clock.now_s())
            self._tell()
            if step is None:
                self._wake.clear()
                await self._wake.wait()
                deadline_s = clock.now_s()
                continue
            deadline_s = faults.step_end_s(deadline_s, self._cost(step))
            backlog_s = clock.now_s() - deadline_s
            await clock.sleep_until(deadline_s)
            self.metrics.lateness.step(clock.now_s() - deadline_s, backlog_s)
            if scheduler is self.scheduler:
                self._finish(step)

    def _finish(self, step: Step) -> None:
        now_s = self._clock.now_s()
        tokens = self.scheduler.finish_step(step, now_s)
        self.metrics.step(step.num_tokens)
        for token in tokens:
            if self._faults.cuts and self._cut(token, now_s):
                continue
            self._exchanges[token.seq].token(token)
            self.metrics.token(token, now_s)
        self._tell()

    def _cut(self, token: Token, now_s: float) -> bool:
        seq = token.seq
        fault = self._faults.cut(now_s, seq.number, token.position)
        if fault is None:
            return False
        self._exchanges.pop(seq).end(fault.kind)  # type: ignore[arg-type] # a kind in CUTS
        self.scheduler.cancel(seq, now_s)
        self.metrics.failed += 1
        return True

    def _tell(self) -> None:
        for event in self.scheduler.take_events():
            if event.kind == "finished" and (exchange := self._exchanges.pop(event.seq, None)):
                self.metrics.finished(event.seq, exchange.ask.finish_reason)
                exchange.end("finished")
            elif event.kind == "expired":
                self._exchanges.pop(event.seq).end("expired")
            self.metrics.event(event)
            if self._listener:
                self._listener(event)
