"""The way into the queue and out of it unserved, the same for an engine and for a pool of slots.

Keeps the books that admission looks at: what waits, how fast it starts and ends, how long it will be.
"""

from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from loadkit.core.admission import EngineView, Refusal, all_of, always
from loadkit.core.history import LengthHistory, StartRate, Throughput
from loadkit.core.policies import LaneRule, Policy
from loadkit.core.waiting import Waiter, Waiting


class Entrant(Waiter, Protocol):
    """A waiter with the notes that the entrance makes on it."""

    guess: float
    timeout_s: float
    timeout_reason: str | None
    refusal: str | None
    retry_after_s: float | None

    @property
    def fixed_work(self) -> float:
        """The part of its work that is known for certain."""

    @property
    def open_work(self) -> float:
        """The most that may come on top of it."""


_E = TypeVar("_E", bound=Entrant)
_DEFAULT = LaneRule()


class Entrance(Generic[_E]):
    """Admission, time-outs and the waiting queue of one policy."""

    def __init__(self, policy: Policy) -> None:
        rules = policy.lanes.values()
        self.waiting: Waiting[_E] = Waiting(policy)
        self.admits = policy.admit is not always or any(rule.admit is not always for rule in rules)
        self.times_out = policy.drop_expired or bool(policy.codel)
        self.times_out |= any(rule.codel for rule in rules)
        self._policy = policy
        self._lengths, self._speed, self._starts = LengthHistory(), Throughput(), StartRate()
        self._timeouts: list[tuple[float, int, _E]] = []
        self._queued_work = 0.0
        self._last_empty_s = float("-inf")

    def refusal(
        self, seq: _E, now_s: float, running: int, slots: int, blocks: int
    ) -> Refusal | None:
        """What the policy and the lane's rule say to an arrival; `slots` and `blocks` are free ones."""
        policy = self._policy
        if policy.estimates:
            seq.guess = seq.fixed_work + self._lengths.guess(seq.tenant, seq.open_work)
        if not self.admits:
            return None
        rule = policy.lanes.get(seq.lane, _DEFAULT)
        refusal = all_of(policy.admit, rule.admit)(seq, self.view(now_s, running, slots, blocks))
        if refusal:
            seq.refusal, seq.retry_after_s = refusal
        return refusal

    def view(self, now_s: float, running: int, slots: int, blocks: int) -> EngineView:
        return EngineView(
            now_s=now_s,
            waiting=len(self.waiting),
            running=running,
            free_slots=slots,
            free_blocks=blocks,
            start_rate_rps=self._starts.rate_rps(now_s),
            lane_waiting=self.waiting.lane_sizes if self._policy.lanes else {},
            queued_work=self._queued_work,
            work_rate=self._speed.rate(now_s) if self._policy.estimates else None,
        )

    def queue(self, seq: _E, now_s: float) -> None:
        """It joins, with a time-out where the policy gives one."""
        if self.times_out:
            self._give_timeout(seq, now_s)
        self.waiting.push(seq)
        self._queued_work += seq.guess

    def started(self, seq: _E, now_s: float) -> None:
        """It starts for the first time."""
        self._starts.started(now_s)
        self._queued_work -= seq.guess

    def gave_up(self, seq: _E) -> None:
        """It leaves the queue without having started."""
        self._queued_work -= seq.guess

    def ended(self, seq: _E, now_s: float, length: float) -> None:
        """It has been served to the end; `length` is what its `open_work` turned out to be."""
        if self._policy.estimates:
            self._lengths.ended(seq.tenant, length)
            self._speed.ended(now_s, seq.fixed_work + length)

    def overdue(self, now_s: float) -> _E | None:
        """The next in the queue whose time is up before `now_s`; the caller must take it out."""
        timeouts = self._timeouts
        while timeouts and timeouts[0][0] < now_s:
            seq = heappop(timeouts)[2]
            if seq.state == "waiting" and seq.timeout_s < float("inf"):
                seq.refusal = seq.timeout_reason
                return seq
        return None

    def _give_timeout(self, seq: _E, now_s: float) -> None:
        if not self.waiting:
            self._last_empty_s = now_s
        codel = self._policy.lanes.get(seq.lane, _DEFAULT).codel or self._policy.codel
        if codel:
            seq.timeout_s = now_s + codel.timeout_s(now_s, self._last_empty_s)
            seq.timeout_reason = "queue_timeout"
        deadline_s = seq.deadline_s if self._policy.drop_expired else None
        if deadline_s is not None and deadline_s < seq.timeout_s:
            seq.timeout_s, seq.timeout_reason = deadline_s, "deadline_passed"
        if seq.timeout_s < float("inf"):
            heappush(self._timeouts, (seq.timeout_s, seq.number, seq))
