"""The decisions of `SlotPool` for plain policies, made by counting: ten times as fast, never different.

In a plain policy each of two classes, urgent and batch, starts in arrival order, and the latest starts
are evicted first. Who starts at an instant then follows from how many may, and no job is ever compared
with another. A test holds it against `SlotPool` job by job.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from loadkit.core.admission import always
from loadkit.core.orders import by_priority, fcfs
from loadkit.core.policies import Policy
from loadkit.core.victims import youngest

_INF = float("inf")


@dataclass(frozen=True, slots=True)
class CountedRules:
    """What is left of a plain policy."""

    slots: int
    reserve: int = 0
    preempt: bool = False
    recovery_s: float = 0.0
    horizon_s: float = _INF
    snap: Callable[[float], float] | None = None
    sample_s: float = _INF
    """Seconds between two samples of the busy slots."""


@dataclass(slots=True)
class Counted:
    """What became of urgent jobs (first) and batch jobs (after them), by index."""

    start_s: list[float | None]
    end_s: list[float | None]
    evictions: dict[int, int] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    """Evicted and not resumed."""
    busy_slot_s: float = 0.0
    now_s: float = 0.0
    busy_samples: list[tuple[float, float]] = field(default_factory=list)
    """Instants, and the slot seconds spent until then."""


def is_plain(policy: Policy) -> bool:
    """Whether counting can decide it, for jobs of at most two levels and of one priority."""
    eviction, headroom = policy.preemption, policy.headroom
    tame = policy.admit is always and not (policy.lanes or policy.drop_expired or policy.codel)
    by_arrival = policy.order in (fcfs, by_priority) and policy.lifo_after_s is None
    two_classes = policy.order is by_priority or not (eviction or headroom)
    evicts_latest = eviction is None or (eviction.order is youngest and not eviction.min_run_s)
    in_slots = headroom is None or headroom.unit == "slots"
    special = policy.floor or policy.static or policy.weights is not None or policy.estimates
    return tame and by_arrival and two_classes and evicts_latest and in_slots and not special


def run_counted(
    arrival_s: Sequence[float], service_s: Sequence[float], urgent: int, rules: CountedRules
) -> Counted:
    """The first `urgent` rows are urgent; each class is sorted by arrival."""
    return _Counting(arrival_s, service_s, urgent, rules).run()


class _Counting:
    """One simulation. Jobs below `urgent` are urgent; `arrived` and `started` are places in each class."""

    __slots__ = (
        "_arrival_s", "_batch_arrived", "_batch_started", "_done", "_ends", "_evicted", "_free",
        "_rules", "_running", "_service_s", "_total", "_urgent", "_urgent_arrived",
        "_urgent_started",
    )  # fmt: skip

    def __init__(
        self,
        arrival_s: Sequence[float],
        service_s: Sequence[float],
        urgent: int,
        rules: CountedRules,
    ) -> None:
        self._arrival_s, self._service_s, self._rules = arrival_s, service_s, rules
        self._total, self._urgent = len(arrival_s), urgent
        self._done = Counted([None] * self._total, [None] * self._total)
        self._ends: list[tuple[float, int]] = []
        self._running: dict[int, tuple[float, float]] = {}
        """Batch: end and latest start, in the order they started."""
        self._evicted: deque[tuple[int, float]] = deque()
        """Batch: job and service left, the next one first."""
        self._urgent_arrived = self._urgent_started = 0
        self._batch_arrived = self._batch_started = urgent
        self._free = rules.slots

    def run(self) -> Counted:
        done, rules, ends = self._done, self._rules, self._ends
        next_arrival_s, now_s, next_sample_s = self._arrive(-_INF), 0.0, rules.sample_s
        while True:
            event_s = min(next_arrival_s, ends[0][0]) if ends else next_arrival_s
            if event_s >= rules.horizon_s or event_s == _INF:
                break
            done.busy_slot_s += (rules.slots - self._free) * (event_s - now_s)
            now_s = event_s
            if now_s >= next_sample_s:
                done.busy_samples.append((now_s, done.busy_slot_s))
                next_sample_s = now_s + rules.sample_s
            if next_arrival_s == now_s:
                next_arrival_s = self._arrive(now_s)
            if ends and ends[0][0] == now_s:
                self._leave(now_s)
            if self._urgent_started < self._urgent_arrived:
                self._start_urgent(now_s)
            if self._free > rules.reserve:
                self._start_batch(now_s)
        end_s = rules.horizon_s if rules.horizon_s < _INF else now_s
        done.busy_slot_s += (rules.slots - self._free) * (end_s - now_s)
        done.busy_samples.append((end_s, done.busy_slot_s))
        done.now_s = end_s
        done.waiting = [job for job, _ in self._evicted]
        return done

    def _arrive(self, now_s: float) -> float:
        """Who is here by now; when the next one comes."""
        arrival_s, urgent, total = self._arrival_s, self._urgent, self._total
        here = self._urgent_arrived = bisect_right(arrival_s, now_s, self._urgent_arrived, urgent)
        there = self._batch_arrived = bisect_right(arrival_s, now_s, self._batch_arrived, total)
        return min(
            arrival_s[here] if here < urgent else _INF, arrival_s[there] if there < total else _INF
        )

    def _leave(self, now_s: float) -> None:
        ends, running, end_s, urgent = self._ends, self._running, self._done.end_s, self._urgent
        while ends and ends[0][0] == now_s:
            job = heappop(ends)[1]
            if job >= urgent:
                if job not in running or running[job][0] != now_s:
                    continue  # evicted since
                del running[job]
            end_s[job] = now_s
            self._free += 1

    def _start_urgent(self, now_s: float) -> None:
        wanting = self._urgent_arrived - self._urgent_started
        if self._rules.preempt and wanting > self._free and self._running:
            self._evict(wanting - self._free, now_s)
        first = self._urgent_started
        last = self._urgent_started = first + min(wanting, self._free)
        self._free -= last - first
        ends, start_s, snap = self._ends, self._done.start_s, self._rules.snap
        for job in range(first, last):
            start_s[job] = now_s
            end_s = now_s + self._service_s[job]
            heappush(ends, (snap(end_s) if snap else end_s, job))

    def _start_batch(self, now_s: float) -> None:
        evicted, snap = self._evicted, self._rules.snap
        while self._free > self._rules.reserve:
            if evicted:
                job, left_s = evicted.popleft()
            elif self._batch_started < self._batch_arrived:
                job = self._batch_started
                left_s = self._service_s[job]
                self._done.start_s[job] = now_s
                self._batch_started += 1
            else:
                return
            end_s = snap(now_s + left_s) if snap else now_s + left_s
            self._running[job] = (end_s, now_s)
            heappush(self._ends, (end_s, job))
            self._free -= 1

    def _evict(self, wanted: int, now_s: float) -> None:
        """Latest start first, ties in starting order; each in that order goes to the head."""
        running, evictions = self._running, self._done.evictions
        for job in sorted(running, key=lambda job: -running[job][1])[:wanted]:
            end_s, _ = running.pop(job)
            self._evicted.appendleft((job, end_s - now_s + self._rules.recovery_s))
            evictions[job] = evictions.get(job, 0) + 1
            self._free += 1
