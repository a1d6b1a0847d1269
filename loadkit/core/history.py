"""What the past tells about lengths and speed: the tenant's usual output, the work done per second."""

import math
from bisect import bisect_left, insort
from collections import deque

_LENGTHS_KEPT = 256
_ENDS_KEPT = 64
_ENDS_TO_JUDGE = 8


class LengthHistory:
    """The 80th percentile (nearest rank) of the last 256 outputs of each tenant."""

    __slots__ = ("_by_tenant",)

    def __init__(self) -> None:
        self._by_tenant: dict[str | None, tuple[deque[float], list[float]]] = {}

    def ended(self, tenant: str | None, length: float) -> None:
        recent, ordered = self._by_tenant.setdefault(tenant, (deque(), []))
        if len(recent) == _LENGTHS_KEPT:
            del ordered[bisect_left(ordered, recent.popleft())]
        recent.append(length)
        insort(ordered, length)

    def guess(self, tenant: str | None, at_most: float) -> float:
        """min(at_most, the tenant's p80); without a history `at_most`, or 0 when that is no bound."""
        ordered = self._by_tenant.get(tenant, ((), []))[1]
        if not ordered:
            return at_most if at_most < math.inf else 0.0
        return min(at_most, ordered[math.ceil(0.8 * len(ordered)) - 1])


class Throughput:
    """Work per second over the last 64 endings."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: deque[tuple[float, float]] = deque(maxlen=_ENDS_KEPT)

    def ended(self, now_s: float, work: float) -> None:
        self._ends.append((now_s, work))

    def rate(self, now_s: float) -> float | None:
        """None before 8 endings, or when they all came at once."""
        if len(self._ends) < _ENDS_TO_JUDGE:
            return None
        since_s = self._ends[0][0]
        work = sum(work for _, work in self._ends) - self._ends[0][1]
        return work / (now_s - since_s) if now_s > since_s and work else None


class StartRate:
    """Starts per second over the last 33."""

    __slots__ = ("_starts_s",)

    def __init__(self) -> None:
        self._starts_s: deque[float] = deque(maxlen=33)

    def started(self, now_s: float) -> None:
        self._starts_s.append(now_s)

    def rate_rps(self, now_s: float) -> float | None:
        starts_s = self._starts_s
        if len(starts_s) < 2 or now_s <= starts_s[0]:
            return None
        return (len(starts_s) - 1) / (now_s - starts_s[0])
