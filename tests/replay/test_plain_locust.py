"""A locustfile of one's own, run with plain `locust`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replay_helpers import Finished, StartEmulator, WriteTrace

LOCUSTFILE = """
from loadkit.drive.user import ReplayUser


class Staging(ReplayUser):
    host = "{url}"
    trace = "{trace}"
    options = ["-o", "{run}", "--max-send-lag", "5s"]
"""


@pytest.mark.parametrize("processes", [(), ("--processes", "2", "-u", "2")])
def test_a_subclass_replays_and_locust_ends_with_its_exit_code(
    emulator: StartEmulator, write_trace: WriteTrace, tmp_path: Path, processes: tuple[str, ...]
) -> None:
    engine = emulator()
    trace = write_trace([{"request_id": f"r{i}", "arrival_s": i * 0.05} for i in range(40)])
    run = tmp_path / "run"
    (tmp_path / "locustfile.py").write_text(LOCUSTFILE.format(url=engine.url, trace=trace, run=run))

    ended = subprocess.run(
        [sys.executable, "-m", "locust", "--headless", "--only-summary", *processes],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    done = Finished(ended.returncode, ended.stdout, ended.stderr, run)
    assert (len(done.requests), set(done.requests["status"])) == (40, {"ok"})
    assert done.manifest["workers"] == (2 if processes else 1)
    assert "TTFT" in ended.stdout + ended.stderr  # Locust's own table has seen the requests
    assert (run / "report" / "index.html").exists()
