"""What a slot pool is given: a trace by columns, so that a million requests stay small."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
import numpy.typing as npt

from loadkit.core import Job
from loadkit.core.orders import is_deferrable, lane_level
from loadkit.errors import InputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Workload:
    """Rows in arrival order. An optional column is None where no row tells."""

    request_id: Sequence[str]
    arrival_s: Floats
    service_s: Floats
    lane_names: Sequence[str]
    lane_code: Ints
    """Index into `lane_names`."""
    tenant: Sequence[str | None] | None = None
    priority: Sequence[int | None] | None = None
    deadline_s: Floats | None = None
    """NaN = none."""
    tokens: Sequence[int] | None = None
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

    @cached_property
    def rows_by_lane(self) -> dict[str, Ints]:
        return {
            name: np.flatnonzero(self.lane_code == code)
            for code, name in enumerate(self.lane_names)
        }

    @cached_property
    def is_batch(self) -> Bools:
        """Rows of deferrable lanes."""
        return np.array([is_deferrable(lane) for lane in self.lane_names])[self.lane_code]

    @cached_property
    def is_plain(self) -> bool:
        """One priority, and not more than one level of urgent and one of batch lanes."""
        levels = {(is_deferrable(lane), lane_level(lane)) for lane in self.lane_names}
        one_each = len({batch for batch, _ in levels}) == len(levels)
        return one_each and len({p or 0 for p in self.priority or ()}) < 2

    def lanes(self) -> list[str]:
        """The lane of every row."""
        return [self.lane_names[code] for code in self.lane_code.tolist()]

    def deadlines(self) -> list[float | None] | None:
        if self.deadline_s is None:
            return None
        return [None if math.isnan(due_s) else due_s for due_s in self.deadline_s.tolist()]

    def jobs(self, tick_s: float | None) -> list[Job]:
        """Fresh jobs. On a grid, both arrival and service are rounded up to whole ticks."""
        none = repeat(None)
        columns = zip(
            range(len(self)),
            on_grid(self.arrival_s, tick_s).tolist(),
            on_grid(self.service_s, tick_s).tolist(),
            self.lanes(),
            self.tenant or none,
            repeat(0) if self.priority is None else (p or 0 for p in self.priority),
            self.deadlines() or none,
            self.tokens or none,
            strict=False,  # the defaults are endless
        )
        return [Job(*row) for row in columns]


def on_grid(instants_s: Floats, tick_s: float | None) -> Floats:
    """Rounded up to whole ticks; as they are without a tick."""
    return instants_s if tick_s is None else np.ceil(instants_s / tick_s - 1e-9) * tick_s


def snapped(tick_s: float | None) -> "Snap | None":
    """Rounds to the grid; None where sums of ticks are exact anyhow."""
    return None if tick_s is None or tick_s == math.floor(tick_s) else Snap(tick_s)


@dataclass(frozen=True, slots=True)
class Snap:
    tick_s: float

    def __call__(self, instant_s: float) -> float:
        return round(instant_s / self.tick_s) * self.tick_s
