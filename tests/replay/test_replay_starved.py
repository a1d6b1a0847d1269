"""A starved load generator is INVALID; it never reads as a slow server."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from replay_helpers import StartEmulator, StartReplay, WriteTrace

HOGS = 20
HOG = "import time; end = time.monotonic() + 25\nwhile time.monotonic() < end: pass"


@pytest.fixture
def hogged_cpu() -> Iterator[int]:
    """A CPU that busy processes share, each of them in a session (and scheduling group) of its own."""
    cpu = min(os.sched_getaffinity(0))
    hogs = [
        subprocess.Popen([sys.executable, "-IS", "-c", HOG], start_new_session=True)
        for _ in range(HOGS)
    ]
    for hog in hogs:
        os.sched_setaffinity(hog.pid, {cpu})
    yield cpu
    for hog in hogs:
        hog.kill()
        hog.wait()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a second CPU for the server")
def test_a_worker_that_gets_too_little_cpu_makes_the_run_invalid(
    emulator: StartEmulator, start_replay: StartReplay, write_trace: WriteTrace, hogged_cpu: int
) -> None:
    engine = emulator("--profile", "tiny", "--slots", "256")
    os.sched_setaffinity(engine.pid, os.sched_getaffinity(0) - {hogged_cpu})
    rows = [{"arrival_s": i / 250, "output_tokens": 30} for i in range(2000)]

    replaying = start_replay(write_trace(rows), engine.url, "--max-send-lag", "50ms")
    replaying.wait_for_rows()
    os.sched_setaffinity(replaying.children()["local"], {hogged_cpu})
    done = replaying.end()

    assert done.code == 3
    assert done.out.startswith("INVALID")
    assert not done.summary["valid"]
    assert any("send lag" in reason or "worker" in reason for reason in done.summary["reasons"])
