"""The decisions of `SlotPool` for plain policies, made by counting: ten times as fast, never different.

In a plain policy each of two classes, urgent and batch, starts in arrival order, and the latest starts
are evicted first. Who starts at an instant then follows from how many may, and no job is ever compared
with another. A test holds it against `SlotPool` job by job.
"""

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
    total = len(arrival_s)
    done = Counted([None] * total, [None] * total)
    start_s, end_s, snap, reserve = done.start_s, done.end_s, rules.snap, rules.reserve
    ends: list[tuple[float, int]] = []
    running: dict[int, tuple[float, float]] = {}  # batch: end and latest start, in starting order
    evicted: deque[tuple[int, float]] = deque()  # batch: what is left, next first
    here_u = next_u = 0  # urgent: arrived, started
    here_b = next_b = urgent
    at_u = arrival_s[0] if urgent else _INF
    at_b = arrival_s[urgent] if urgent < total else _INF
    free, now_s = rules.slots, 0.0
    while True:
        event_s = min(at_u, at_b, ends[0][0]) if ends else min(at_u, at_b)
        if event_s >= rules.horizon_s or event_s == _INF:
            break
        done.busy_slot_s += (rules.slots - free) * (event_s - now_s)
        now_s = event_s
        while at_u == now_s:
            here_u += 1
            at_u = arrival_s[here_u] if here_u < urgent else _INF
        while at_b == now_s:
            here_b += 1
            at_b = arrival_s[here_b] if here_b < total else _INF
        while ends and ends[0][0] == now_s:
            job = heappop(ends)[1]
            if job >= urgent:
                if job not in running or running[job][0] != now_s:
                    continue  # evicted since
                del running[job]
            end_s[job] = now_s
            free += 1
        wanting = here_u - next_u
        if rules.preempt and wanting > free and running:
            free += _evict(running, evicted, wanting - free, rules, done, now_s)
        last_u = next_u + min(wanting, free)
        free -= last_u - next_u
        for job in range(next_u, last_u):
            start_s[job] = now_s
            end = now_s + service_s[job]
            heappush(ends, (snap(end) if snap else end, job))
        next_u = last_u
        while free > reserve:
            if evicted:
                job, left_s = evicted.popleft()
            elif next_b < here_b:
                job, left_s = next_b, service_s[next_b]
                start_s[job] = now_s
                next_b += 1
            else:
                break
            end = snap(now_s + left_s) if snap else now_s + left_s
            running[job] = (end, now_s)
            heappush(ends, (end, job))
            free -= 1
    done.now_s = now_s
    done.waiting = [job for job, _ in evicted]
    if rules.horizon_s < _INF:
        done.busy_slot_s += (rules.slots - free) * (rules.horizon_s - now_s)
        done.now_s = rules.horizon_s
    return done


def _evict(
    running: dict[int, tuple[float, float]],
    evicted: deque[tuple[int, float]],
    wanted: int,
    rules: CountedRules,
    done: Counted,
    now_s: float,
) -> int:
    """Latest start first, ties in starting order; each goes to the head. How many slots that frees."""
    victims = sorted(running, key=lambda job: -running[job][1])[:wanted]
    for job in victims:
        end_s, _ = running.pop(job)
        evicted.appendleft((job, end_s - now_s + rules.recovery_s))
        done.evictions[job] = done.evictions.get(job, 0) + 1
    return len(victims)
