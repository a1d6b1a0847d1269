"""The live line on stderr: where the run is, what it does to the server, how the client feels."""

import contextlib
import sys
from typing import TextIO

import numpy as np

from loadkit.errors import printable
from loadkit.model import ServerMetric
from loadkit.replay.recorder import Recorder

PLAIN_EVERY_S = 10.0
"""Between two lines where the output is no terminal."""


class Progress:
    """Shows a recorder's state; call `show` about once a second."""

    def __init__(self, recorder: Recorder, duration_s: float, stream: TextIO = sys.stderr) -> None:
        self._recorder = recorder
        self._duration_s = duration_s
        self._stream = stream
        self._live = stream.isatty()
        self._next_plain_s = 0.0
        self._before: tuple[float, float] = (0.0, 0.0)
        self._width = 0

    def show(self) -> None:
        elapsed_s = self._recorder.elapsed_s
        if self._live:
            self._rewrite(self._line(elapsed_s))
        elif elapsed_s >= self._next_plain_s:
            self._next_plain_s = elapsed_s + PLAIN_EVERY_S
            self._print(self._line(elapsed_s))

    def say(self, text: str) -> None:
        """A lasting line above the live one."""
        if self._live:
            self._rewrite("")
        self._print(printable(text))

    def end(self) -> None:
        if self._live:
            self._rewrite("")
            self._write("\r")

    def _line(self, elapsed_s: float) -> str:
        recorder = self._recorder
        sent = sum(s.get(ServerMetric.WORKER_SENT_TOTAL, 0) for s in recorder.worker.values())
        in_flight = sum(s.get(ServerMetric.WORKER_IN_FLIGHT, 0) for s in recorder.worker.values())
        failed = sum(n for status, n in recorder.statuses.items() if status != "ok")
        p99 = f"{np.quantile(recorder.ttft_s, 0.99) * 1e3:.0f} ms" if recorder.ttft_s else "-"
        return (
            f"{clock(elapsed_s)}/{clock(self._duration_s)}"
            f"  sent {sent:.0f} ({self._rate(elapsed_s, sent):.1f}/s)"
            f"  in flight {in_flight:.0f}  done {recorder.statuses['ok']}  failed {failed}"
            f"  TTFT p99 {p99}"
        )

    def _rate(self, elapsed_s: float, sent: float) -> float:
        before_s, before_sent = self._before
        self._before = (elapsed_s, sent)
        return max(0.0, sent - before_sent) / max(elapsed_s - before_s, 1e-9)

    def _rewrite(self, line: str) -> None:
        self._write("\r" + line.ljust(self._width))
        self._width = len(line)

    def _print(self, text: str) -> None:
        self._write(("\r" if self._live else "") + text + "\n")

    def _write(self, text: str) -> None:
        """A run is not given up because nobody reads its progress any more."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
