"""Is this worker itself the bottleneck? Samples of its CPU, its event loop and its backlog, once a second."""

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import gevent

from loadkit.drive.replayer import Replayer
from loadkit.model import ServerMetric

SAMPLE_EVERY_S = 1.0
PULSE_EVERY_S = 0.02
_SCHEDSTAT = Path("/proc/self/schedstat")
_STATM = Path("/proc/self/statm")

Samples = dict[str, float]


def watch_health(
    replayer: Replayer, emit: Callable[[float, Samples], None]
) -> list[gevent.Greenlet]:
    """Start sampling; `emit` gets a monotonic instant and the samples. Kill the greenlets to stop."""
    pulse = _Pulse()
    return [gevent.spawn(pulse.run), gevent.spawn(_sample, replayer, pulse, emit)]


class _Pulse:
    """Measures how late a timer of the event loop comes."""

    def __init__(self) -> None:
        self._worst_lag_s = 0.0

    def run(self) -> None:
        while True:
            due_s = time.monotonic() + PULSE_EVERY_S
            gevent.sleep(PULSE_EVERY_S)
            self._worst_lag_s = max(self._worst_lag_s, time.monotonic() - due_s)

    def take_worst_lag_s(self) -> float:
        worst_lag_s, self._worst_lag_s = self._worst_lag_s, 0.0
        return worst_lag_s


def _sample(replayer: Replayer, pulse: _Pulse, emit: Callable[[float, Samples], None]) -> None:
    before = _Spent.now()
    while True:
        gevent.sleep(SAMPLE_EVERY_S)
        now = _Spent.now()
        elapsed_s = now.at_s - before.at_s
        samples: Samples = {
            ServerMetric.WORKER_CPU_RATIO: (now.cpu_s - before.cpu_s) / elapsed_s,
            ServerMetric.WORKER_LOOP_LAG_S: pulse.take_worst_lag_s(),
            ServerMetric.WORKER_IN_FLIGHT: replayer.in_flight,
            ServerMetric.WORKER_SENT_TOTAL: replayer.sent,
        }
        if now.cpu_wait_s is not None and before.cpu_wait_s is not None:
            wait_ratio = (now.cpu_wait_s - before.cpu_wait_s) / elapsed_s
            samples[ServerMetric.WORKER_CPU_WAIT_RATIO] = wait_ratio
        rss_bytes = _rss_bytes()
        if rss_bytes is not None:
            samples[ServerMetric.WORKER_RSS_BYTES] = rss_bytes
        emit(now.at_s, samples)
        before = now


class _Spent(NamedTuple):
    """Cumulative times of this process."""

    at_s: float
    cpu_s: float
    cpu_wait_s: float | None

    @classmethod
    def now(cls) -> "_Spent":
        return cls(time.monotonic(), time.process_time(), _cpu_wait_s())


def _cpu_wait_s() -> float | None:
    """Seconds that the main thread was ready to run but had no CPU (Linux: sched-stats.rst)."""
    try:
        return int(_SCHEDSTAT.read_text().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return None


def _rss_bytes() -> float | None:
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return None
