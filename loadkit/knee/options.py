"""What a user asks of a search."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadkit.knee.search import Search

Measure = Callable[[Path, Path, int | None], None]
"""Replay the trace at the first path into a run directory at the second.

May stop as soon as so many requests that were due after the warm-up have missed the SLO; None = never.
"""


@dataclass(frozen=True, slots=True)
class KneeOptions:
    trace: Path
    search: Search
    output: Path
    measure: Measure
    target: str
    """As it was asked for; a search that goes on must ask for the same."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the target or the client, plain JSON values; the same holds for them."""
    trace_format: str | None = None
    scaled: Sequence[str] = ()
    """Lanes whose load is searched; none = all together."""
    lanes: Sequence[str] = ()
    """Lanes to send; none = all."""
    seed: int = 1
    max_model_len: int | None = None
    """Most tokens of a request; longer ones are left out, for they would miss at any load."""
    budget_s: float = float("inf")
    """No step begins that would not end within it, going by the steps before."""
