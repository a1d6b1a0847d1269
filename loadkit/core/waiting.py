"""Who waits: one queue a lane, each in the policy's order, from which a member may vanish."""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from loadkit.core.fair import FairClock
from loadkit.core.orders import Candidate, Key, Order, is_deferrable
from loadkit.core.policies import LaneRule, Policy


class Waiter(Candidate, Protocol):
    """A candidate whose state the queue looks at: only those in state `waiting` count."""

    fair_tag: float

    @property
    def state(self) -> str: ...


_W = TypeVar("_W", bound=Waiter)
_DEFAULT = LaneRule()


class LaneQueue(Generic[_W]):
    """One lane. Arrivals in key order cost O(1), others O(log n); who was put back in front goes first."""

    __slots__ = ("_front", "_late", "_line", "_order", "lifo_after_s", "size")

    def __init__(self, order: Order, lifo_after_s: float | None) -> None:
        self._order = order
        self.lifo_after_s = lifo_after_s
        self._front: list[tuple[Key, _W]] = []
        self._line: deque[tuple[Key, _W]] = deque()
        self._late: list[tuple[Key, int, _W]] = []
        self.size = 0

    def __iter__(self) -> Iterator[_W]:
        """In no particular order."""
        entries = (*self._front, *self._line, *((key, seq) for key, _, seq in self._late))
        return (seq for _, seq in entries if seq.state == "waiting")

    def push(self, seq: _W) -> None:
        key, line = self._order(seq), self._line
        if not line or key >= line[-1][0]:
            line.append((key, seq))
        else:
            heappush(self._late, (key, seq.number, seq))
        self.size += 1

    def put_back(self, seq: _W) -> None:
        """In front of everybody: it was running."""
        self._front.append((self._order(seq), seq))
        self.size += 1

    def head(self, now_s: float) -> tuple[Key, _W]:
        """The next to start, with its key. The queue must not be empty."""
        front, line, late = self._front, self._line, self._late
        while front and front[-1][1].state != "waiting":
            front.pop()
        if front:
            return front[-1]
        while line and line[0][1].state != "waiting":
            line.popleft()
        if self.lifo_after_s is not None and line and self._overloaded(now_s):
            key, seq = line[-1]
            return (*key[:-1], -key[-1]), seq  # arrival counts the other way round
        while late and late[0][2].state != "waiting":
            heappop(late)
        if late and (not line or late[0][0] < line[0][0]):
            return late[0][0], late[0][2]
        return line[0]

    def take(self, seq: _W) -> None:
        """Remove what `head` has given."""
        front, line = self._front, self._line
        if front and front[-1][1] is seq:
            front.pop()
        elif line and line[0][1] is seq:
            line.popleft()
        elif line and line[-1][1] is seq:
            line.pop()
        else:
            assert self._late[0][2] is seq
            heappop(self._late)
        self.size -= 1

    def _overloaded(self, now_s: float) -> bool:
        line = self._line
        while line[-1][1].state != "waiting":
            line.pop()
        assert self.lifo_after_s is not None
        return now_s - line[0][1].arrival_s > self.lifo_after_s


class Waiting(Generic[_W]):
    """All lanes. Members in state `waiting`; one that leaves that state otherwise is told to `left`."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._queues: dict[str, LaneQueue[_W]] = {}
        self.urgent: list[LaneQueue[_W]] = []
        self.deferrable: list[LaneQueue[_W]] = []
        self._all: list[LaneQueue[_W]] = []
        self.fair = None if policy.weights is None else FairClock(policy.weights)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[_W]:
        """In no particular order."""
        return (seq for queue in self._all for seq in queue)

    @property
    def lane_sizes(self) -> dict[str, int]:
        return {lane: queue.size for lane, queue in self._queues.items()}

    @property
    def urgent_size(self) -> int:
        return sum(queue.size for queue in self.urgent)

    @property
    def deferrable_size(self) -> int:
        return sum(queue.size for queue in self.deferrable)

    def push(self, seq: _W) -> None:
        if self.fair:
            seq.fair_tag = self.fair.tag(seq.tenant, seq.work)
        self._queue(seq.lane).push(seq)
        self._size += 1

    def put_back(self, seq: _W) -> None:
        self._queue(seq.lane).put_back(seq)
        self._size += 1

    def rejoin(self, seq: _W) -> None:
        """Evicted: back to where its key says; its fair share is already charged."""
        self._queue(seq.lane).push(seq)
        self._size += 1

    def best(self, queues: list[LaneQueue[_W]], now_s: float) -> _W | None:
        """The head with the smallest key. Ties go to the earlier lane."""
        best: tuple[Key, _W] | None = None
        for queue in queues:
            if queue.size:
                head = queue.head(now_s)
                if best is None or head[0] < best[0]:
                    best = head
        return None if best is None else best[1]

    def choose(self, now_s: float, *, batch_first: bool, batch_may: bool) -> _W | None:
        """Who starts next: batch below its floor, otherwise the smallest key of the lanes that may."""
        if batch_first and self.deferrable_size:
            return self.best(self.deferrable, now_s)
        return self.best(self._all if batch_may else self.urgent, now_s)

    def left(self, seq: _W) -> None:
        """A member has been given another state; its entry is skipped when it surfaces."""
        self._queues[seq.lane].size -= 1
        self._size -= 1

    def take(self, seq: _W) -> None:
        """It starts: `choose` has given it."""
        self._queues[seq.lane].take(seq)
        self._size -= 1
        if self.fair:
            self.fair.served(seq.fair_tag)

    def _queue(self, lane: str) -> LaneQueue[_W]:
        queue = self._queues.get(lane)
        return queue if queue is not None else self._open(lane)

    def _open(self, lane: str) -> LaneQueue[_W]:
        rule = self._policy.lanes.get(lane, _DEFAULT)
        lifo = rule.lifo_after_s if rule.lifo_after_s is not None else self._policy.lifo_after_s
        queue: LaneQueue[_W] = LaneQueue(rule.order or self._policy.order, lifo)
        self._queues[lane] = queue
        (self.deferrable if is_deferrable(lane) else self.urgent).append(queue)
        self._all.append(queue)
        return queue
