"""A client's record joined with the server's ledger, request by request, and the errors counted.

Both sides stamp with the monotonic clock of one machine, so no clock is fitted and no latency is
subtracted: the error of an instant is the client's stamp minus the server's write.
"""

from collections import Counter
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles in milliseconds; NaN where nothing was measured."""

    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, values_s: Array) -> "Spread":
        if not len(values_s):
            return cls(np.nan, np.nan, np.nan)
        return cls(*(float(q) * 1e3 for q in np.quantile(values_s, (0.5, 0.99, 1.0))))

    @classmethod
    def median(cls, spreads: "list[Spread]") -> "Spread":
        """Of each quantile on its own."""
        return cls(*(float(np.median(q)) for q in zip(*map(astuple, spreads), strict=True)))


@dataclass(frozen=True, slots=True)
class Cores:
    """Mean number of cores that others than the client used while it ran."""

    server: float
    foreign: float
    """Processes that have no part in the measurement: with much of it a row says little."""


@dataclass(frozen=True, slots=True)
class Row:
    """One client at one rate. What each figure means is told in README.md."""

    client: str
    rate_rps: float
    offered: int
    measured: int
    achieved_share: float
    ttft_error_ms: Spread
    itl_error_ms: Spread
    send_lag_ms: Spread
    arrival_lag_ms: Spread
    server_late_ms: Spread
    write_ms: Spread
    cpu_us_per_token: float
    cpu_all_us_per_token: float
    rss_mib: float
    cores: Cores
    errors: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Pair:
    """One request on both sides, complete on both."""

    scheduled_s: float
    sent_s: float
    chunks_s: Array
    arrival_s: float
    due_s: Array
    start_s: Array
    end_s: Array


def read_ledger(path: Path) -> dict[str, dict[str, Any]]:
    entries = (orjson.loads(line) for line in path.read_bytes().splitlines())
    return {entry["request_id"]: entry for entry in entries}


def join(
    requests: list[dict[str, Any]], ledger: dict[str, dict[str, Any]]
) -> tuple[list[Pair], dict[str, int]]:
    """Pairs, and how many requests make none and why."""
    pairs: list[Pair] = []
    errors: dict[str, int] = {}
    for request in requests:
        entry = ledger.get(request["request_id"])
        why = _why_not(request, entry)
        if why is None and entry is not None:
            pairs.append(_pair(request, entry))
        else:
            errors[str(why)] = errors.get(str(why), 0) + 1
    return pairs, errors


def _why_not(request: dict[str, Any], entry: dict[str, Any] | None) -> str | None:
    if request["error"]:
        return str(request["error"])
    if request["sent_s"] is None:
        return "never sent"
    if entry is None:
        return "not in the ledger"
    if len(request["chunks_s"]) != len(entry["start_s"]):
        return "client and server differ in the number of chunks"
    return None


def _pair(request: dict[str, Any], entry: dict[str, Any]) -> Pair:
    return Pair(
        request["scheduled_s"],
        request["sent_s"],
        np.array(request["chunks_s"]),
        entry["arrival_s"],
        *(np.array(entry[name]) for name in ("due_s", "start_s", "end_s")),
    )


def measure(
    client: str,
    rate_rps: float,
    record: dict[str, Any],
    ledger: dict[str, dict[str, Any]],
    *,
    measured_ids: set[str],
    cores: Cores,
) -> Row:
    asked = [r for r in record["requests"] if r["request_id"] in measured_ids]
    pairs, errors = join(asked, ledger)
    us_per_token = 1e6 / max(1, record["cpu_tokens"])
    return Row(
        client=client,
        rate_rps=rate_rps,
        offered=len(measured_ids),
        measured=len(pairs),
        achieved_share=achieved_share(pairs, len(measured_ids)),
        ttft_error_ms=Spread.of(np.array([abs(p.chunks_s[0] - p.start_s[0]) for p in pairs])),
        itl_error_ms=Spread.of(_flat([_itl_error_s(p) for p in pairs])),
        send_lag_ms=Spread.of(np.array([p.sent_s - p.scheduled_s for p in pairs])),
        arrival_lag_ms=Spread.of(np.array([p.arrival_s - p.scheduled_s for p in pairs])),
        server_late_ms=Spread.of(_flat([p.start_s - p.due_s for p in pairs])),
        write_ms=Spread.of(_flat([p.end_s - p.start_s for p in pairs])),
        cpu_us_per_token=record["cpu_s"] * us_per_token,
        cpu_all_us_per_token=record["cpu_all_s"] * us_per_token,
        rss_mib=record["rss_bytes"] / 2**20,
        cores=cores,
        errors=errors,
    )


def typical(rounds: list[Row]) -> Row:
    """Median of every figure over rounds of one client at one rate; requests and errors add up."""
    figures: dict[str, Any] = {}
    for name in (field.name for field in fields(Row)):
        values = [getattr(row, name) for row in rounds]
        if isinstance(values[0], Spread):
            figures[name] = Spread.median(values)
        elif isinstance(values[0], float):
            figures[name] = float(np.median(values))
    foreign = max(row.cores.foreign for row in rounds)
    return replace(
        rounds[0],
        **{**figures, "rate_rps": rounds[0].rate_rps},
        offered=sum(row.offered for row in rounds),
        measured=sum(row.measured for row in rounds),
        cores=Cores(rounds[0].cores.server, foreign),
        errors=dict(sum((Counter(row.errors) for row in rounds), Counter())),
    )


def achieved_share(pairs: list[Pair], offered: int) -> float:
    """Rate at which measured requests reached the server over the rate at which they were due.

    (share completed) x (span of the schedule / span of the arrivals), at most 1.
    """
    if len(pairs) < 2:
        return 0.0
    due_span_s = np.ptp([p.scheduled_s for p in pairs])
    arrival_span_s = np.ptp([p.arrival_s for p in pairs])
    return float(len(pairs) / offered * min(1.0, due_span_s / arrival_span_s))


def _itl_error_s(pair: Pair) -> Array:
    return np.abs(np.diff(pair.chunks_s) - np.diff(pair.start_s))


def _flat(arrays: list[Array]) -> Array:
    return np.concatenate(arrays) if arrays else np.empty(0)
