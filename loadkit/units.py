"""Units in values (`500ms`, `2x`, `8rps`, `10m`): where text becomes a number with a unit."""

import math
import re

from loadkit.errors import InputError
from loadkit.model import Slo

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
LATENCY_METRICS = ("ttft", "queue_wait", "prefill", "tpot", "itl", "stall", "e2e")


def duration_s(text: str) -> float:
    """`1h30m`, `500ms`, `10s` → seconds. Raises InputError, also for a number without a unit."""
    parts = re.findall(_NUMBER + r"(ns|us|ms|s|m|h|d)", text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise InputError(f"{text!r} is not a duration", hint="write a unit: 500ms, 10s, 10m, 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds == math.inf:
        raise InputError(f"{text!r} is not a duration", hint="it is longer than any number")
    return seconds


def factor(text: str) -> float:
    """`2x`, `0.5x` → a positive factor. Raises InputError."""
    match = re.fullmatch(_NUMBER + "x", text.strip())
    if not match or not 0 < float(match[1]) < math.inf:
        raise InputError(f"{text!r} is not a factor", hint="write it with an x: 2x, 0.5x")
    return float(match[1])


def rate_rps(text: str) -> float:
    """`8rps` → requests per second. Raises InputError."""
    match = re.fullmatch(_NUMBER + "rps", text.strip())
    if not match or float(match[1]) <= 0:
        raise InputError(f"{text!r} is not a rate", hint="write requests per second: 8rps")
    return float(match[1])


def window_s(text: str) -> tuple[float, float]:
    """`0s:10m` → (start, end) in seconds. An empty side is open: `5m:`. Raises InputError."""
    start, colon, end = text.partition(":")
    if not colon:
        raise InputError(f"{text!r} is not a window", hint="write start:end, for example 0s:10m")
    window = (duration_s(start) if start else 0.0, duration_s(end) if end else float("inf"))
    if window[0] >= window[1]:
        raise InputError(f"window {text!r} is empty", hint="the end must lie after the start")
    return window


def slo(text: str) -> Slo:
    """`interactive:ttft:p99:500ms` → Slo. Raises InputError."""
    hint = f"LANE:METRIC:pNN:DURATION, metric one of {', '.join(LATENCY_METRICS)}"
    fields = text.split(":")
    if len(fields) != 4 or fields[1] not in LATENCY_METRICS:
        raise InputError(f"{text!r} is not an SLO", hint=f"{hint}; e.g. interactive:ttft:p99:500ms")
    match = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", fields[2])
    if not match:
        raise InputError(f"{fields[2]!r} in SLO {text!r} is not a quantile", hint="p50, p99, p99.9")
    return Slo(fields[0], fields[1], float(match[1]) / 100, duration_s(fields[3]))
