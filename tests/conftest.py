"""Fixtures that several rooms share."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of the code: nothing here is judged by the time that it takes.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

pytest_plugins = ["replay_helpers"]

READY_WITHIN_S = 30.0
STOPPED_WITHIN_S = 10.0


@dataclass(frozen=True)
class RunningEmulator:
    """`loadkit emulate` in a process of its own."""

    url: str
    port: int
    ledger_path: Path
    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> int:
        """End it as a user would; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOPPED_WITHIN_S)
            raise

    def ledger(self) -> dict[str, dict[str, Any]]:
        """Stop it and read what it really sent: rows by request id."""
        self.stop()
        rows = [json.loads(line) for line in self.ledger_path.read_bytes().splitlines()]
        return {row["request_id"]: row for row in rows if "request_id" in row}


StartEmulator = Callable[..., RunningEmulator]


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[StartEmulator]:
    """`emulator("--slots", "4", …)` starts one and returns when it answers; all are stopped at the end."""
    started: list[RunningEmulator] = []

    def start(*options: str) -> RunningEmulator:
        folder = tmp_path / f"emulator{len(started)}"
        folder.mkdir()
        running = start_emulator(folder, options)
        started.append(running)
        return running

    yield start
    for running in started:
        running.stop()


def start_emulator(folder: Path, options: tuple[str, ...]) -> RunningEmulator:
    """Start one that the caller stops. Raises AssertionError with its log where it does not answer."""
    port_file, ledger = folder / "port", folder / "ledger.jsonl"
    files = ("--port", "0", "--port-file", str(port_file), "--ledger", str(ledger))
    command = (sys.executable, "-m", "loadkit", "emulate", *files, *options)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    until_s = time.monotonic() + READY_WITHIN_S
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > until_s:
            process.kill()
            process.wait(STOPPED_WITHIN_S)
            raise AssertionError(f"no emulator: {(folder / 'log').read_text()}")
        time.sleep(0.02)
    port = int(port_file.read_text())
    return RunningEmulator(f"http://127.0.0.1:{port}", port, ledger, process)
