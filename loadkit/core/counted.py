"""The decisions of `SlotPool` for plain policies, made by counting: ten times as fast, never different.

In a plain policy each of two classes, urgent and batch, starts in arrival order, and the latest starts
are evicted first. Who starts at an instant then follows from how many may, and no job is ever compared
with another. A test holds it against `SlotPool` job by job.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from loadkit.core.admission import always
from loadkit.core.orders import by_priority, fcfs
from loadkit.core.policies import Policy
from loadkit.core.victims import youngest

_INF = float("inf")


class Arrived(NamedTuple):
    """How many jobs of each class have come by an instant."""

    now_s: float
    urgent: int
    batch: int


_NOBODY = Arrived(_INF, 0, 0)


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
    """What became of the jobs of each class, in the order they started for the first time."""

    urgent_start_s: list[float] = field(default_factory=list)
    urgent_end_s: list[float] = field(default_factory=list)
    """May lie behind the horizon, as may that of batch."""
    batch_start_s: list[float] = field(default_factory=list)
    batch_end_s: list[float] = field(default_factory=list)
    """Infinite for the evicted that were not resumed."""
    evictions: dict[int, int] = field(default_factory=dict)
    """How often, by number of the batch job."""
    busy_slot_s: float = 0.0
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
    arrivals: Iterable[Arrived],
    urgent_service_s: Sequence[float],
    batch_service_s: Sequence[float],
    rules: CountedRules,
) -> Counted:
    """Both classes in order of arrival; `arrivals` are all instants at which somebody comes."""
    counting = _Counting(urgent_service_s, batch_service_s, rules)
    counting.run(arrivals)
    return counting.done


class _Counting:
    """One simulation. It does not know who runs, only how many end and when."""

    __slots__ = (
        "_arrived", "_batch_service_s", "_cohorts", "_ends", "_evicted", "_free", "_leaving",
        "_rules", "_urgent_service_s", "done",
    )  # fmt: skip

    def __init__(
        self,
        urgent_service_s: Sequence[float],
        batch_service_s: Sequence[float],
        rules: CountedRules,
    ) -> None:
        self._urgent_service_s, self._batch_service_s = urgent_service_s, batch_service_s
        self._rules, self._free, self._arrived = rules, rules.slots, Arrived(0.0, 0, 0)
        self.done = Counted()
        self._leaving: dict[float, int] = {}
        """How many end at an instant to come."""
        self._ends: list[float] = []
        """Its keys, as a heap."""
        self._cohorts: list[list[tuple[int, float]]] = []
        """Batch that started together, the first last, with its ends; who has ended may still stand here."""
        self._evicted: deque[tuple[int, float]] = deque()
        """Batch: job and service left, the next one first."""

    def run(self, arrivals: Iterable[Arrived]) -> None:
        done, rules, ends, coming = self.done, self._rules, self._ends, iter(arrivals)
        following, now_s, next_sample_s = next(coming, _NOBODY), 0.0, rules.sample_s
        while True:
            event_s = min(following.now_s, ends[0]) if ends else following.now_s
            if event_s >= rules.horizon_s:
                break
            done.busy_slot_s += (rules.slots - self._free) * (event_s - now_s)
            now_s = event_s
            if now_s >= next_sample_s:
                done.busy_samples.append((now_s, done.busy_slot_s))
                next_sample_s = now_s + rules.sample_s
            if following.now_s == now_s:
                self._arrived, following = following, next(coming, _NOBODY)
            if ends and ends[0] == now_s:
                self._free += self._leaving.pop(heappop(ends))
            self._start_urgent(now_s)
            if self._free > rules.reserve:
                self._start_batch(now_s)
        end_s = rules.horizon_s if rules.horizon_s < _INF else now_s
        done.busy_slot_s += (rules.slots - self._free) * (end_s - now_s)
        done.busy_samples.append((end_s, done.busy_slot_s))

    def _start_urgent(self, now_s: float) -> None:
        done = self.done
        first = len(done.urgent_start_s)
        wanting = self._arrived.urgent - first
        if wanting > self._free and self._rules.preempt:
            self._evict(wanting - self._free, now_s)
        count = min(wanting, self._free)
        if count:
            self._free -= count
            left_s = self._urgent_service_s[first : first + count]
            done.urgent_start_s += [now_s] * count
            done.urgent_end_s += self._occupy(left_s, now_s)

    def _start_batch(self, now_s: float) -> None:
        done, evicted = self.done, self._evicted
        may = self._free - self._rules.reserve
        resumed = [evicted.popleft() for _ in range(min(may, len(evicted)))]
        first = len(done.batch_start_s)
        fresh = range(first, first + min(may - len(resumed), self._arrived.batch - first))
        if not (resumed or fresh):
            return
        self._free -= len(resumed) + len(fresh)
        done.batch_start_s += [now_s] * len(fresh)
        done.batch_end_s += [_INF] * len(fresh)
        jobs = [*(job for job, _ in resumed), *fresh]
        left_s = [
            *(rest_s for _, rest_s in resumed),
            *self._batch_service_s[fresh.start : fresh.stop],
        ]
        cohort = list(zip(jobs, self._occupy(left_s, now_s), strict=True))
        for job, end_s in cohort:
            done.batch_end_s[job] = end_s
        if self._rules.preempt:
            self._cohorts.append(cohort[::-1])

    def _occupy(self, left_s: Sequence[float], now_s: float) -> list[float]:
        """A slot for each from now on; when it ends."""
        leaving, snap = self._leaving, self._rules.snap
        ends_s = [now_s + rest_s for rest_s in left_s]
        if snap:
            ends_s = [snap(end_s) for end_s in ends_s]
        for end_s in ends_s:
            if end_s in leaving:
                leaving[end_s] += 1
            else:
                leaving[end_s] = 1
                heappush(self._ends, end_s)
        return ends_s

    def _evict(self, wanted: int, now_s: float) -> None:
        """Latest start first, ties in starting order; each in that order to the head of the queue."""
        cohorts, done = self._cohorts, self.done
        while wanted and cohorts:
            if not cohorts[-1]:
                cohorts.pop()
                continue
            job, end_s = cohorts[-1].pop()
            if end_s <= now_s:
                continue  # it has ended
            self._leaving[end_s] -= 1
            self._evicted.appendleft((job, end_s - now_s + self._rules.recovery_s))
            done.batch_end_s[job] = _INF
            done.evictions[job] = done.evictions.get(job, 0) + 1
            self._free += 1
            wanted -= 1
