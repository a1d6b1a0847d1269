"""What a slot pool is given: a trace by columns, so that a million requests stay small."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from loadkit.core import Job
from loadkit.errors import InputError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Workload:
    """Rows in arrival order. Optional columns hold None where a row does not tell."""

    request_id: Sequence[str]
    arrival_s: Floats
    service_s: Floats
    lane: Sequence[str]
    tenant: Sequence[str | None] | None = None
    priority: Sequence[int | None] | None = None
    deadline_s: Sequence[float | None] | None = None
    tokens: Sequence[int | None] | None = None
    """Prompt + max_tokens."""

    def __post_init__(self) -> None:
        wrong = ~(np.isfinite(self.service_s) & (self.service_s > 0))
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(
                f"request {self.request_id[row]} holds its slot for {self.service_s[row]} s",
                hint="service_s must be above 0 in every row",
            )

    def __len__(self) -> int:
        return len(self.arrival_s)

    def jobs(self, tick_s: float | None) -> list[Job]:
        """Fresh jobs. On a grid, both arrival and service are rounded up to whole ticks."""
        arrival_s, service_s = self.arrival_s, self.service_s
        if tick_s is not None:
            arrival_s, service_s = _up(arrival_s, tick_s), _up(service_s, tick_s)
        none = repeat(None)
        columns = zip(
            range(len(self)),
            arrival_s.tolist(),
            service_s.tolist(),
            self.lane,
            self.tenant or none,
            repeat(0) if self.priority is None else (p or 0 for p in self.priority),
            self.deadline_s or none,
            self.tokens or none,
            strict=False,
        )
        return [Job(*row) for row in columns]


def _up(instants_s: Floats, tick_s: float) -> Floats:
    return np.ceil(instants_s / tick_s - 1e-9) * tick_s


def snapped(tick_s: float) -> "Snap | None":
    """Rounds to the grid; None where sums of ticks are exact anyhow."""
    return None if tick_s == math.floor(tick_s) else Snap(tick_s)


@dataclass(frozen=True, slots=True)
class Snap:
    tick_s: float

    def __call__(self, instant_s: float) -> float:
        return round(instant_s / self.tick_s) * self.tick_s
