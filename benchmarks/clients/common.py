"""What every measured client shares: the plan it sends by and the record it leaves behind.

A client is `python CLIENT.py PLAN OUT`. It sends request i at `origin + offset i` whatever the
server does (open loop), stamps with the monotonic clock, keeps stamps in memory and writes OUT
when all is over. It imports neither gevent nor asyncio: the clients bring their own.
"""

import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

START_DELAY_S = 0.5
REQUEST_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    url: str
    tokens: int
    prompt_tokens: int
    warmup_s: float
    """Requests before this offset open the connections and are not measured."""
    requests: list[tuple[str, float]]
    """Request id, offset from the start of the run in seconds."""

    @classmethod
    def read(cls, path: Path) -> "Plan":
        values = orjson.loads(path.read_bytes())
        return cls(**values | {"requests": [tuple(item) for item in values["requests"]]})

    def write(self, path: Path) -> None:
        path.write_bytes(orjson.dumps(self))

    @property
    def warmup_count(self) -> int:
        return sum(offset_s < self.warmup_s for _, offset_s in self.requests)

    def body(self) -> bytes:
        values = {
            "model": "exact",
            "prompt": list(range(1000, 1000 + self.prompt_tokens)),
            "max_tokens": self.tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return orjson.dumps(values)


def headers(request_id: str) -> dict[str, str]:
    return {"Content-Type": "application/json", "X-Request-Id": request_id}


@dataclass(slots=True)
class Request:
    """One request as its client saw it; all instants on the monotonic clock of the machine."""

    request_id: str
    scheduled_s: float
    sent_s: float | None = None
    chunks_s: list[float] = field(default_factory=list)
    """One stamp a token."""
    error: str | None = None


@dataclass(slots=True)
class Meter:
    """CPU of this process from the end of the warm-up."""

    marked_s: float = 0.0
    cpu_s: float = 0.0

    def mark(self) -> None:
        self.marked_s, self.cpu_s = time.monotonic(), _cpu_s()

    def stop(self) -> None:
        self.cpu_s = _cpu_s() - self.cpu_s


def is_token(line: bytes) -> bool:
    """A `data:` line with a choice in it: neither the usage at the end nor [DONE]."""
    return line.startswith(b"data: {") and b'"choices":[]' not in line


def write_result(path: Path, requests: list[Request], meter: Meter) -> None:
    result: dict[str, Any] = {
        "requests": requests,
        "cpu_s": meter.cpu_s,
        "cpu_all_s": meter.cpu_s,
        "cpu_tokens": sum(t >= meter.marked_s for r in requests for t in r.chunks_s),
        "rss_bytes": peak_rss_bytes(),
    }
    path.write_bytes(orjson.dumps(result))


def arguments() -> tuple[Plan, Path]:
    return Plan.read(Path(sys.argv[1])), Path(sys.argv[2])


def peak_rss_bytes() -> int:
    """From /proc: `ru_maxrss` survives exec, so it may tell the size of the parent instead."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status: no VmHWM line")


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
