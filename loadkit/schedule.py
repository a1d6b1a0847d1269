"""What to send and exactly when: Trace → Schedule. Pure and seeded: no clock, no file, no global state.

Load is changed by whole sessions, never by rows, so that a conversation stays a conversation.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadkit.errors import InputError
from loadkit.model import Send, Trace, TraceRequest

MAX_COPY_SHIFT_S = 600.0
"""Superposed copies are shifted by up to this much: far beyond a burst, far below a day's shape."""

Rows = list[TraceRequest]


@dataclass(frozen=True, slots=True)
class Transforms:
    """How a trace becomes a schedule."""

    speedup: float = 1.0
    """2 = twice as fast: arrivals, think times and deadlines all shrink by it."""
    scale: float = 1.0
    """0.5 = keep half of the sessions; 2 = superpose a shifted copy with prefixes of its own."""
    window_s: tuple[float, float] = (0.0, float("inf"))
    """Part of the recording to take, in recorded seconds; it then starts at 0."""
    lanes: tuple[str, ...] = ()
    """Lanes to keep; empty = all."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Schedule:
    sends: tuple[Send, ...]
    """Sorted by `scheduled_s`."""
    transforms: Transforms
    recorded_duration_s: float
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rows of the trace that are not offered, by reason."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """What was adapted without dropping a row: orphan turns made roots."""

    @property
    def duration_s(self) -> float:
        """From the start to the last planned instant."""
        return self.sends[-1].scheduled_s if self.sends else 0.0

    def sha256(self) -> str:
        """Identity of what is offered: equal for two runs that may be compared request by request."""
        digest = hashlib.sha256()
        for send in self.sends:
            digest.update(repr(send).encode())
        return digest.hexdigest()


def build(trace: Trace, transforms: Transforms) -> Schedule:
    """Apply lane choice, window, scale and speedup, in that order.

    Raises InputError when nothing is left to send.
    """
    dropped: Counter[str] = Counter()
    rows = _in_lanes(list(trace.requests), transforms.lanes)
    rows = _in_window(rows, transforms.window_s)
    rows = _sendable(rows, dropped)
    rows = _link_turns(rows)
    rows, orphans = _adopt_orphans(rows)
    rows, cycles = _break_cycles(rows)
    rows = _scaled(rows, transforms.scale, transforms.seed)
    sends = [_send(row, transforms.speedup) for row in sorted(rows, key=lambda r: r.arrival_s)]
    if not sends:
        raise InputError("nothing is left to send", hint=_why_empty(trace, transforms, dropped))
    recorded_s = sends[-1].scheduled_s * transforms.speedup
    counted = {
        "orphan turns sent as first turns": orphans,
        "turns that waited for each other in a circle, one sent as a first turn": cycles,
    }
    notes = {what: n for what, n in counted.items() if n}
    return Schedule(tuple(sends), transforms, recorded_s, dict(dropped), notes)


def shard(sends: Iterable[Send], count: int) -> list[list[Send]]:
    """Split over `count` workers; a conversation stays on one. Conversations are dealt out in turn."""
    shards: list[list[Send]] = [[] for _ in range(count)]
    worker_of: dict[str, int] = {}
    dealt = 0
    for send in sends:
        chain = send.session or send.parent_id or send.request_id
        if chain not in worker_of:
            worker_of[chain] = worker_of.get(send.parent_id or "", dealt % count)
            dealt += 1
        worker = worker_of[send.request_id] = worker_of[chain]
        shards[worker].append(send)
    return shards


def rate_curve(schedule: Schedule, bins: int = 48) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Bin edges in seconds, and planned requests per second in each bin, by lane."""
    end_s = max(schedule.duration_s, 1e-9)
    edges = np.linspace(0.0, end_s, bins + 1)
    curves = {}
    for lane in sorted({send.lane for send in schedule.sends}):
        instants = [send.scheduled_s for send in schedule.sends if send.lane == lane]
        curves[lane] = np.histogram(instants, edges)[0] / (end_s / bins)
    return edges, curves


def describe(schedule: Schedule) -> dict[str, Any]:
    """Totals of a schedule as plain JSON values, for the manifest and the dry run."""
    lanes = Counter(send.lane for send in schedule.sends)
    per_second = Counter(int(send.scheduled_s) for send in schedule.sends)
    return {
        "sha256": schedule.sha256(),
        "requests": len(schedule.sends),
        "lanes": dict(lanes),
        "sessions": len({send.session for send in schedule.sends if send.session}),
        "follow_up_turns": sum(send.parent_id is not None for send in schedule.sends),
        "duration_s": schedule.duration_s,
        "recorded_duration_s": schedule.recorded_duration_s,
        "mean_rate_rps": len(schedule.sends) / max(schedule.duration_s, 1e-9),
        "peak_rate_rps": max(per_second.values()),
        "prompt_tokens": sum(send.prompt_tokens for send in schedule.sends),
        "output_tokens": sum(send.output_tokens for send in schedule.sends),
        "dropped": dict(schedule.dropped),
        "notes": dict(schedule.notes),
    }


def _in_lanes(rows: Rows, lanes: tuple[str, ...]) -> Rows:
    known = {row.lane for row in rows}
    unknown = set(lanes) - known
    if unknown:
        raise InputError(
            f"lane {min(unknown)!r} is not in the trace",
            hint=f"its lanes: {', '.join(sorted(known)) or 'none'}",
        )
    return [row for row in rows if not lanes or row.lane in lanes]


def _in_window(rows: Rows, window_s: tuple[float, float]) -> Rows:
    start_s, end_s = window_s
    return [
        row._replace(
            arrival_s=row.arrival_s - start_s,
            deadline_s=None if row.deadline_s is None else row.deadline_s - start_s,
        )
        for row in rows
        if start_s <= row.arrival_s < end_s
    ]


def _sendable(rows: Rows, dropped: Counter[str]) -> Rows:
    """Rows whose lengths are known and positive; the others are counted by reason."""
    kept = []
    for row in rows:
        reason = _unsendable(row)
        if reason:
            dropped[reason] += 1
        else:
            kept.append(row)
    return kept


def _unsendable(row: TraceRequest) -> str:
    output_tokens = _output_tokens(row)
    if output_tokens is None:
        return "output length unknown"
    if row.prompt_tokens is None and row.payload is None and row.prompt is None:
        return "prompt length unknown"
    if row.prompt_tokens == 0 or output_tokens == 0:
        return "zero tokens (a failed request in the recording)"
    return ""


def _output_tokens(row: TraceRequest) -> int | None:
    """What was generated then or, where the recording does not tell, what was allowed."""
    return row.max_tokens if row.output_tokens is None else row.output_tokens


def _link_turns(rows: Rows) -> Rows:
    """Give each later turn of a session its predecessor as parent, where the trace names none."""
    last_of: dict[str, str] = {}
    linked = []
    for row in rows:
        parent_id = row.parent_id or last_of.get(row.session or "")
        if row.session is not None:
            last_of[row.session] = row.request_id
        linked.append(row._replace(parent_id=parent_id))
    return linked


def _adopt_orphans(rows: Rows) -> tuple[Rows, int]:
    """A turn whose parent is not sent becomes a first turn: it goes out at its own instant."""
    present = {row.request_id for row in rows}
    orphans = sum(row.parent_id is not None and row.parent_id not in present for row in rows)
    return [
        row if row.parent_id in present else row._replace(parent_id=None, think_s=None)
        for row in rows
    ], orphans


def _break_cycles(rows: Rows) -> tuple[Rows, int]:
    """Turns that wait for one another in a circle would never go out: one of them goes first."""
    parent_of = {row.request_id: row.parent_id for row in rows}
    reached: dict[str, int] = {}
    freed: set[str] = set()
    for number, row in enumerate(rows):
        name: str | None = row.request_id
        while name is not None and name not in reached:
            reached[name] = number
            name = parent_of[name]
        if name is not None and reached[name] == number:
            freed.add(name)
            parent_of[name] = None
    return [
        row._replace(parent_id=None, think_s=None) if row.request_id in freed else row
        for row in rows
    ], len(freed)


def _scaled(rows: Rows, scale: float, seed: int) -> Rows:
    if scale <= 0:
        raise InputError(f"scale {scale} is not positive")
    copies, remainder = int(scale), scale - int(scale)
    span_s = rows[-1].arrival_s if rows else 0.0
    scaled: Rows = []
    for copy in range(copies):
        scaled += _copy(rows, copy, span_s, seed)
    if remainder > 1e-9:
        scaled += _copy(_thinned(rows, remainder, seed), copies, span_s, seed)
    return scaled


def _thinned(rows: Rows, share: float, seed: int) -> Rows:
    """Keep each conversation with probability `share`; a smaller share keeps a subset of a larger."""
    root_of: dict[str, str] = {}
    kept = []
    for row in rows:
        root = row.session or root_of.get(row.parent_id or "", row.request_id)
        root_of[row.request_id] = root
        if _uniform(seed, "thin", root) < share:
            kept.append(row)
    return kept


def _copy(rows: Rows, copy: int, span_s: float, seed: int) -> Rows:
    """Copy 0 is the trace itself; others start up to MAX_COPY_SHIFT_S later, wrapping at the end.

    A wrapped conversation is moved as a whole, by its first turn.
    """
    if copy == 0:
        return rows
    shift_s = _uniform(seed, "shift", copy) * min(span_s, MAX_COPY_SHIFT_S)
    moved_s: dict[str, float] = {}
    copied = []
    for row in rows:
        root_shift_s = shift_s if row.arrival_s + shift_s <= span_s else shift_s - span_s
        by_s = moved_s.get(row.parent_id or "", root_shift_s)
        moved_s[row.request_id] = by_s
        copied.append(_renamed(row, f"~{copy}", by_s))
    return copied


def _renamed(row: TraceRequest, suffix: str, by_s: float) -> TraceRequest:
    return row._replace(
        request_id=row.request_id + suffix,
        arrival_s=row.arrival_s + by_s,
        session=row.session and row.session + suffix,
        parent_id=row.parent_id and row.parent_id + suffix,
        deadline_s=None if row.deadline_s is None else row.deadline_s + by_s,
        prefix_ns=(row.prefix_ns or "") + suffix if row.prefix_ids else row.prefix_ns,
    )


def _send(row: TraceRequest, speedup: float) -> Send:
    return Send(
        request_id=row.request_id,
        scheduled_s=row.arrival_s / speedup,
        lane=row.lane,
        prompt_tokens=row.prompt_tokens or 0,
        output_tokens=_output_tokens(row) or 0,
        tenant=row.tenant,
        session=row.session,
        turn=row.turn,
        parent_id=row.parent_id,
        think_s=None if row.think_s is None else row.think_s / speedup,
        deadline_s=None if row.deadline_s is None else row.deadline_s / speedup,
        priority=row.priority,
        prefix_ids=row.prefix_ids,
        prefix_block=row.prefix_block,
        prefix_ns=row.prefix_ns,
        payload=row.payload,
        prompt=row.prompt,
    )


def _uniform(seed: int, purpose: str, key: object) -> float:
    """A number in [0, 1) that depends on its arguments alone, equal on every platform."""
    digest = hashlib.blake2b(f"{seed}|{purpose}|{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _why_empty(trace: Trace, transforms: Transforms, dropped: Counter[str]) -> str:
    if not trace.requests:
        return "the trace holds no requests"
    if dropped:
        return "dropped: " + ", ".join(f"{n} of {why}" for why, n in dropped.items())
    start_s, end_s = transforms.window_s
    return (
        f"the trace spans 0 to {trace.span_s:.0f} s; the window asks for {start_s:g} to {end_s:g} s"
    )
