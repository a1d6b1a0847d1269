"""What a reader hands over: columns in file order, still unsorted, and what only it could know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Seconds = npt.NDArray[np.float64]

TIME_UNITS_S = {"s": 1.0, "ms": 1e-3}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user may decide about a file that cannot speak for itself."""

    lane: str | None = None
    """The lane of every row."""
    api_lane: str | None = None
    """BurstGPT: the lane of `API log` rows."""
    time_unit: str | None = None
    """`s` or `ms`, for a format that does not fix it."""
    segment: int | None = None
    """Which part (from 1) of a file whose clock starts again."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A file, parsed. `columns` carry canonical names; times are in `arrival_s`."""

    source: str
    """`azure2023.conv`: prefix of the request ids."""
    columns: Mapping[str, Any]
    arrival_s: Seconds
    rebase: bool
    """True: the first arrival becomes 0. False: `arrival_s` already counts from the trace's t0."""
    first_line: int = 1
    """The line of the first row: 2 below a header."""
    t0_ns: int | None = None
    """Unix time of `arrival_s` 0, in ns; None when the file does not tell."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of `loadkit.meta`: licence, attribution, time_resolution_s …"""
    warnings: tuple[str, ...] = ()


def joined(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Chunks with the same columns, end to end."""
    return {name: pa.chunked_array([chunk[name] for chunk in chunks]) for name in chunks[0]}


def as_seconds(column: Any) -> Seconds:
    return np.asarray(column.to_numpy(), dtype=np.float64)
