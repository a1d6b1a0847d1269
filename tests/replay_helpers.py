"""Running the real command against the real emulator, each in its own process."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

ENDS_WITHIN_S = 60.0
SEND_LAG_BOUND = "5s"
"""Whether the machine that runs the tests is quick enough is not what they ask."""


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str
    run: Path

    @property
    def requests(self) -> pd.DataFrame:
        """Read as anybody would, without loadkit."""
        return pd.read_parquet(self.run / "requests").set_index("request_id")

    @property
    def metrics(self) -> pd.DataFrame:
        return pd.read_parquet(self.run / "metrics")

    @property
    def manifest(self) -> dict[str, Any]:
        values = json.loads((self.run / "run.json").read_text())
        assert isinstance(values, dict)
        return values

    @property
    def summary(self) -> dict[str, Any]:
        values = json.loads((self.run / "report" / "summary.json").read_text())
        assert isinstance(values, dict)
        return values


class Replaying:
    """`loadkit replay` while it runs."""

    def __init__(self, command: Sequence[str], run: Path, environ: Mapping[str, str]) -> None:
        self.run = run
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ},
        )

    def wait_for_rows(self, count: int = 1) -> None:
        """Until so many rows can be read from closed parts."""
        until_s = time.monotonic() + ENDS_WITHIN_S
        while time.monotonic() < until_s and self.process.poll() is None:
            begun = any((self.run / "requests").glob("part-*.parquet"))
            if begun and len(pd.read_parquet(self.run / "requests")) >= count:
                return
            time.sleep(0.05)
        raise AssertionError(f"no rows: {self.process.communicate(timeout=10)}")

    def children(self) -> dict[str, int]:
        """Role (`local`, `master`, `worker`) → pid of a driver process; of several workers, one."""
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        rows = [line.split() for line in listed.splitlines() if "loadkit.drive.child" in line]
        return {row[row.index("loadkit.drive.child") + 1]: int(row[0]) for row in rows}

    def end(self) -> Finished:
        out, err = self.process.communicate(timeout=ENDS_WITHIN_S)
        return Finished(self.process.returncode, out, err, self.run)


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether a process has ended; a zombie has."""
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


StartEmulator = Callable[..., Any]
"""The `emulator` fixture of the whole suite."""
StartReplay = Callable[..., Replaying]
Replay = Callable[..., Finished]


@pytest.fixture
def start_replay(tmp_path: Path) -> Iterator[StartReplay]:
    """`start_replay(trace, url, "--option", …)` begins one; whatever is left is killed at the end."""
    begun: list[Replaying] = []

    def start(
        trace: Path | str, url: str, *options: str, environ: Mapping[str, str] | None = None
    ) -> Replaying:
        run = tmp_path / f"run{len(begun)}"
        command = [sys.executable, "-m", "loadkit", "replay", str(trace), "-o", str(run)]
        command += [*(["--target", url] if url else []), "--max-send-lag", SEND_LAG_BOUND, *options]
        begun.append(Replaying(command, run, environ or {}))
        return begun[-1]

    yield start
    for replaying in begun:
        if replaying.process.poll() is None:
            replaying.process.send_signal(signal.SIGKILL)
            replaying.process.communicate(timeout=10)


@pytest.fixture
def replay(start_replay: StartReplay) -> Replay:
    """The same, waiting for its end."""

    def run(*arguments: Any, **more: Any) -> Finished:
        return start_replay(*arguments, **more).end()

    return run


WriteTrace = Callable[..., Path]


@pytest.fixture
def write_trace(tmp_path: Path) -> WriteTrace:
    """Rows of a small CSV trace; every row needs at least `arrival_s`."""

    def write(rows: Sequence[Mapping[str, object]], name: str = "trace.csv") -> Path:
        path = tmp_path / name
        filled = [{"prompt_tokens": 50, "output_tokens": 10, **row} for row in rows]
        names = sorted({key for row in filled for key in row})
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(filled)
        return path

    return write
