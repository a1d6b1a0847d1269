"""While it runs: rows and samples into Parquet parts, and the few numbers of the progress line."""

import time
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from loadkit.drive.frames import Frame
from loadkit.model import MetricSample, RequestRecord
from loadkit.records import METRICS_SCHEMA, REQUESTS_SCHEMA, PartWriter, RunDir

CLOSE_PART_EVERY_S = 1.0
"""With rows leaving a worker every 0.5 s, a crash costs the finished requests of at most 2 s."""

_SCHEDULED = RequestRecord._fields.index("scheduled_s")
_FIRST_TOKEN = RequestRecord._fields.index("first_token_s")
_STATUS = RequestRecord._fields.index("status")


class Recorder:
    """Takes what the driver and the scraper tell about one run."""

    def __init__(self, run: RunDir) -> None:
        self._requests = PartWriter(run.requests_dir, REQUESTS_SCHEMA)
        self._metrics = PartWriter(run.metrics_dir, METRICS_SCHEMA)
        self._start_monotonic_s: float | None = None
        self.seen: set[str] = set()
        """Ids of requests that have a row."""
        self.statuses: Counter[str] = Counter()
        self.ttft_s = array("d")
        self.worker: dict[int, Mapping[str, float]] = {}
        """Last health samples by worker."""
        self.events: list[dict[str, Any]] = []

    def started(self, monotonic_s: float) -> None:
        self._start_monotonic_s = monotonic_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of the run; negative before it, 0 when it is not yet fixed."""
        if self._start_monotonic_s is None:
            return 0.0
        return time.monotonic() - self._start_monotonic_s

    def take(self, frame: Frame) -> None:
        """`rows`, `health` or `event` of the driver."""
        {"rows": self._take_rows, "health": self._take_health, "event": self._take_event}[
            frame["type"]
        ](frame)

    def take_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        self._requests.add(rows)
        for row in rows:
            self.seen.add(row[0])
            self.statuses[row[_STATUS]] += 1
            if row[_FIRST_TOKEN] is not None and row[_STATUS] == "ok":
                self.ttft_s.append(row[_FIRST_TOKEN] - row[_SCHEDULED])

    def take_samples(self, samples: Sequence[MetricSample]) -> None:
        self._metrics.add(samples)

    def note(self, what: str, t_s: float | None = None, **more: Any) -> None:
        """Something that a reader of the report should know; without an instant it is now."""
        at_s = self.elapsed_s if t_s is None else t_s
        self.events.append({"t_s": round(at_s, 3), "what": what, **more})

    def close_parts(self) -> None:
        """Raises RunError when the disk refuses; what was not written stays for the next try."""
        self._requests.close_part()
        self._metrics.close_part()

    def _take_rows(self, frame: Frame) -> None:
        self.take_rows(frame["rows"])

    def _take_health(self, frame: Frame) -> None:
        worker, t_s = frame["worker"], frame["t_s"]
        self.worker[worker] = frame["samples"]
        self.take_samples(
            [
                MetricSample(t_s, f"worker-{worker}", "loadkit", name, "{}", float(value))
                for name, value in frame["samples"].items()
            ]
        )

    def _take_event(self, frame: Frame) -> None:
        self.note(frame["what"], fatal=bool(frame.get("fatal")))
