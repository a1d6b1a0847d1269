"""Whom to evict: pure sort keys of what runs. Smaller goes first; ties go in the order they started."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from loadkit.core.orders import LANE_LEVELS, Candidate, Key

VictimOrder = Callable[[Candidate], Key]
Recovery = Literal["recompute", "swap"]
_C = TypeVar("_C", bound=Candidate)


def youngest(seq: Candidate) -> Key:
    """The latest start has the least to lose."""
    return (-seq.started_s,)


def most_remaining(seq: Candidate) -> Key:
    return (-seq.expected_left,)


def largest_kv(seq: Candidate) -> Key:
    """Frees the most room at one blow."""
    return (-seq.kv_tokens,)


def lowest_priority(seq: Candidate) -> Key:
    return (-seq.priority, -LANE_LEVELS.get(seq.lane, 0.0), -seq.number)


VICTIMS: dict[str, VictimOrder] = {
    "youngest": youngest,
    "most-remaining": most_remaining,
    "largest-kv": largest_kv,
    "lowest-priority": lowest_priority,
}


@dataclass(frozen=True, slots=True)
class Preemption:
    """An urgent request that finds no room takes it from a running batch one."""

    order: VictimOrder = youngest
    min_run_s: float = 0.0
    """Who has run for less since its latest start is spared: without it two can evict each other for ever."""
    recovery: Recovery = "recompute"
    """`recompute`: its KV cache is dropped and computed again. `swap`: copied to the host and back."""

    def victims(self, running: Sequence[_C], count: int, now_s: float) -> list[_C]:
        """At most `count` of `running` (given in the order they started), in the order to evict them."""
        if self.min_run_s:
            running = [seq for seq in running if now_s - seq.started_s >= self.min_run_s]
        return sorted(running, key=self.order)[:count]
