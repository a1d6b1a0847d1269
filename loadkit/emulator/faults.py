"""Scripted faults: what goes wrong, and when, counted in seconds from the start of the server.

Written as `kind:key=value,…` or as JSON objects with the same keys. Pure but for reading the file.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from loadkit.errors import InputError
from loadkit.units import duration_s, factor

KINDS: Mapping[str, frozenset[str]] = {
    "stall": frozenset({"at", "for"}),  # the whole engine stands still
    "slow": frozenset({"at", "for", "factor"}),  # every step takes `factor` times as long
    "error": frozenset({"at", "for", "every", "after"}),  # `data: {"error": …}`, then [DONE]
    "truncate": frozenset({"at", "for", "every", "after"}),  # a clean end without [DONE]
    "reset": frozenset({"at", "for", "every", "after"}),  # the connection is reset
    "refuse": frozenset({"at", "for", "every", "status"}),  # 503 or 429 with Retry-After
    "restart": frozenset({"at", "for"}),  # streams reset, counters at zero, down for `for`
    "unhealthy": frozenset({"at", "for"}),  # /health says 503
}
CUTS = frozenset({"error", "truncate", "reset"})
_HINT = "for example stall:at=5s,for=2s or error:every=10,after=5"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    at_s: float = 0.0
    for_s: float = inf
    every: int = 1
    """Only every n-th request, counted by arrival."""
    after_tokens: int = 1
    """A cut comes once this many tokens of the stream are out."""
    factor: float = 1.0
    http_status: int = 503

    @property
    def end_s(self) -> float:
        return self.at_s + self.for_s

    def is_on(self, t_s: float, number: int = 0) -> bool:
        """In effect at `t_s`, for the request with this arrival `number` (from 0)."""
        return self.at_s <= t_s < self.end_s and (number + 1) % self.every == 0


def parse_fault(text: str) -> Fault:
    """`stall:at=5s,for=2s` → Fault. Raises InputError."""
    kind, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    return _fault({"kind": kind, **{key.strip(): value for key, _, value in pairs}}, repr(text))


def read_faults(path: Path) -> tuple[Fault, ...]:
    """A JSON list of objects such as `{"kind": "stall", "at": "5s", "for": "2s"}`. Raises InputError."""
    try:
        rows = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: want a JSON list of objects", hint=_HINT)
    return tuple(_fault(row, f"{path}: fault {number}") for number, row in enumerate(rows, 1))


def _fault(words: Mapping[str, Any], where: str) -> Fault:
    kind = str(words.get("kind"))
    if kind not in KINDS:
        raise InputError(f"{where}: unknown fault {kind!r}", hint=f"known: {', '.join(KINDS)}")
    unknown = set(words) - KINDS[kind] - {"kind"}
    if unknown:
        raise InputError(
            f"{where}: {kind} has no {', '.join(sorted(unknown))}",
            hint=f"{kind} takes {', '.join(sorted(KINDS[kind]))}",
        )
    values = [_value(key, str(words[key]), where) for key in KINDS[kind] & set(words)]
    fault = Fault(kind, **dict(values))
    if kind in ("stall", "restart") and fault.for_s == inf:
        raise InputError(f"{where}: a {kind} needs an end", hint="add for=2s")
    return fault


def _value(key: str, text: str, where: str) -> tuple[str, Any]:
    name, read = _READERS[key]
    try:
        return name, read(text)
    except (InputError, ValueError) as error:
        raise InputError(f"{where}: {key}={text}: {error}", hint=_HINT) from error


def _at_least(least: int, text: str) -> int:
    if int(text) < least:
        raise ValueError(f"want a whole number, at least {least}")
    return int(text)


def _status(text: str) -> int:
    if text not in ("429", "503"):
        raise ValueError("want 429 or 503")
    return int(text)


_READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "at": ("at_s", duration_s),
    "for": ("for_s", duration_s),
    "every": ("every", partial(_at_least, 1)),
    "after": ("after_tokens", partial(_at_least, 0)),
    "factor": ("factor", factor),
    "status": ("http_status", _status),
}


class FaultPlan:
    """The faults of one server on its clock: every instant here is absolute."""

    def __init__(self, faults: tuple[Fault, ...], origin_s: float) -> None:
        self.origin_s = origin_s
        self.restarts = sorted((f for f in faults if f.kind == "restart"), key=lambda f: f.at_s)
        self.cuts = [f for f in faults if f.kind in CUTS]
        self._by_kind = {kind: [f for f in faults if f.kind == kind] for kind in KINDS}
        self._stalls = sorted(self._by_kind["stall"], key=lambda f: f.at_s)

    def on(self, kind: str, now_s: float, number: int = 0) -> Fault | None:
        """The first fault of a kind that is in effect now."""
        t_s = now_s - self.origin_s
        return next((fault for fault in self._by_kind[kind] if fault.is_on(t_s, number)), None)

    def cut(self, now_s: float, number: int, position: int) -> Fault | None:
        """What cuts the stream of request `number` instead of its token at `position`."""
        t_s = now_s - self.origin_s
        hits = (f for f in self.cuts if position >= f.after_tokens and f.is_on(t_s, number))
        return next(hits, None)

    def resume_s(self, instant_s: float) -> float:
        """The first instant from `instant_s` on at which the engine is not stalled."""
        t_s = instant_s - self.origin_s
        for stall in self._stalls:
            if stall.is_on(t_s):
                t_s = stall.end_s
        return t_s + self.origin_s if self._stalls else instant_s

    def step_end_s(self, start_s: float, work_s: float) -> float:
        """When a step of `work_s` seconds that begins at `start_s` is over, stalls and slowness added."""
        slow = self.on("slow", start_s)
        end_s = start_s + work_s * (slow.factor if slow else 1.0)
        for stall in self._stalls:
            if start_s <= stall.at_s + self.origin_s < end_s:
                end_s += stall.for_s
        return end_s
