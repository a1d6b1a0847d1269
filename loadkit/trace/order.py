"""Time that runs backwards: small steps are sorted away and counted, a restart is a new segment."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadkit.errors import TraceError
from loadkit.trace.raw import Seconds
from loadkit.trace.source import Source

RESTART_S = 3600.0
"""A step back by more than this starts a new segment."""
JITTER_S = 5.0
"""Rows later than this out of order are sorted too, and warned about."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Order:
    rows: Rows
    """The rows to keep, in time order, ties in file order."""
    segments: int
    starts: tuple[int, ...]
    """The first row of every segment."""
    segment: int
    """The one kept, from 1."""
    out_of_order: int
    largest_step_back_s: float


def ordered(source: Source, arrival_s: Seconds, segment: int | None) -> Order:
    """Choose the segment and sort it. Without a choice the first one. Raises TraceError."""
    starts = np.concatenate(([0], np.flatnonzero(np.diff(arrival_s) < -RESTART_S) + 1))
    if segment is not None and not 1 <= segment <= len(starts):
        raise TraceError(
            f"{source.path}: has no segment {segment}, only {len(starts)}",
            hint=f"choose --segment 1 to {len(starts)}",
        )
    chosen = segment or 1
    end = starts[chosen] if chosen < len(starts) else len(arrival_s)
    rows = np.arange(starts[chosen - 1], end)
    behind_s = np.maximum.accumulate(arrival_s[rows]) - arrival_s[rows]
    return Order(
        rows=rows[np.argsort(arrival_s[rows], kind="stable")] if behind_s.any() else rows,
        segments=len(starts),
        starts=tuple(int(start) for start in starts[:100]),
        segment=chosen,
        out_of_order=int((behind_s > 0).sum()),
        largest_step_back_s=float(behind_s.max()),
    )


def refuse_restarts(source: Source, order: Order) -> None:
    """Sorting two recordings into each other would double the rate. Raises TraceError."""
    if order.segments > 1:
        raise TraceError(
            f"{source.path}: the clock starts again {order.segments - 1} times "
            f"(first at row {order.starts[1] + 1}): {order.segments} segments",
            hint=f"choose one: --segment 1 to {order.segments}; or sort the file by time first "
            "if it is one recording",
        )
