"""Where time comes from: the only module that may read the wall clock.

Instants inside a run are seconds on the monotonic clock, which all processes of a machine share.
Wall time appears once per run, as the anchor in the manifest.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float: ...

    async def sleep_until(self, instant_s: float) -> None: ...


class WallClock:
    """Monotonic time that really passes."""

    def now_s(self) -> float:
        return time.monotonic()

    async def sleep_until(self, instant_s: float) -> None:
        """Return at or after `instant_s`; yields to other tasks even when that is already past."""
        await asyncio.sleep(max(0.0, instant_s - time.monotonic()))


class FakeClock:
    """Time that moves only when somebody sleeps: for tests and for logs that must be identical."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    async def sleep_until(self, instant_s: float) -> None:
        self._now_s = max(self._now_s, instant_s)
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The same instant on both clocks, so that a host with another monotonic origin can join a run."""

    monotonic_s: float
    unix_s: float

    @classmethod
    def now(cls) -> "Anchor":
        return cls(monotonic_s=time.monotonic(), unix_s=time.time())
