"""The waiting queue: a heap in the policy's order from which a member may vanish."""

from collections.abc import Iterator
from heapq import heappop, heappush

from loadkit.core.policies import Order
from loadkit.core.sequence import Sequence


class WaitingQueue:
    """Sequences in state `waiting`. One that leaves that state otherwise is reported with `left()`."""

    __slots__ = ("_heap", "_order", "_size")

    def __init__(self, order: Order) -> None:
        self._order = order
        self._heap: list[tuple[tuple[float, ...], int, Sequence]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sequence]:
        """In no particular order."""
        return (seq for _, _, seq in self._heap if seq.state == "waiting")

    def push(self, seq: Sequence) -> None:
        heappush(self._heap, (self._order(seq), seq.number, seq))
        self._size += 1

    def peek(self) -> Sequence:
        """The next to start. The queue must not be empty."""
        while self._heap[0][2].state != "waiting":
            heappop(self._heap)
        return self._heap[0][2]

    def pop(self) -> Sequence:
        """Take out the next to start. The queue must not be empty."""
        seq = self.peek()
        heappop(self._heap)
        self._size -= 1
        return seq

    def left(self) -> None:
        """A member is no longer waiting; its entry is skipped when it surfaces."""
        self._size -= 1
