"""Whatever dies, and whenever: what was finished is on disk, the report can be made, nobody is left."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from replay_helpers import Finished, Replaying, StartEmulator, StartReplay, WriteTrace, gone

LOST_AT_MOST_S = 2.0
Begin = Callable[..., Replaying]


@pytest.fixture
def begun(emulator: StartEmulator, start_replay: StartReplay, write_trace: WriteTrace) -> Begin:
    """Start a minute of 20 requests a second and wait until it is well under way."""

    def begin(*options: str) -> Replaying:
        engine = emulator("--profile", "tiny")
        rows = [
            {"request_id": f"r{i}", "arrival_s": i * 0.05, "lane": "interactive"}
            for i in range(1200)
        ]
        replaying = start_replay(write_trace(rows), engine.url, "--timeout", "5s", *options)
        replaying.wait_for_rows(60)
        return replaying

    return begin


def report(run: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "loadkit", "report", str(run)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def last_finished_s(run: Path) -> float:
    return float(pd.read_parquet(run / "requests")["finished_s"].max())


def expect_no_driver(children: dict[str, int]) -> None:
    assert children
    for role, pid in children.items():
        assert gone(pid), f"{role} is still there"


def test_the_command_is_killed(begun: Begin) -> None:
    replaying = begun()
    children = replaying.children()

    replaying.process.send_signal(signal.SIGKILL)
    killed_s = time.monotonic()
    replaying.process.communicate(timeout=10)

    expect_no_driver(children)
    anchor_s = Finished(0, "", "", replaying.run).manifest["anchor"]["monotonic_s"]
    assert killed_s - anchor_s - last_finished_s(replaying.run) < LOST_AT_MOST_S
    made = report(replaying.run)
    assert made.returncode == 3
    assert "killed" in made.stdout
    assert (replaying.run / "report" / "index.html").exists()


@pytest.mark.parametrize(("options", "role"), [((), "local"), (("--workers", "2"), "master")])
def test_the_driver_is_killed(begun: Begin, options: tuple[str, ...], role: str) -> None:
    replaying = begun(*options)
    children = replaying.children()

    os.kill(children[role], signal.SIGKILL)
    done = replaying.end()

    expect_no_driver(children)
    assert done.code == 3
    assert "driver process ended early" in done.out
    ok = done.requests[done.requests["status"] == "ok"]
    assert done.manifest["state"] == "failed"
    assert done.manifest["ended_s"] - ok["finished_s"].max() < LOST_AT_MOST_S
    assert set(done.requests["status"]) <= {"ok", "dropped"}


def test_one_of_two_workers_is_killed(begun: Begin) -> None:
    replaying = begun("--workers", "2")
    children = replaying.children()

    os.kill(children["worker"], signal.SIGKILL)
    done = replaying.end()

    expect_no_driver(children)
    assert done.code == 3
    assert "lost" in done.out
    lost = done.requests[done.requests["status"] == "dropped"]
    assert 0 < len(lost) < len(done.requests) / 2
    assert any("worker" in event["what"] for event in done.manifest["events"])


def test_the_server_is_killed_and_the_run_goes_on_to_its_end(
    emulator: StartEmulator, start_replay: StartReplay, write_trace: WriteTrace
) -> None:
    engine = emulator("--profile", "tiny")
    rows = [{"request_id": f"r{i}", "arrival_s": i * 0.05, "output_tokens": 40} for i in range(160)]
    replaying = start_replay(write_trace(rows), engine.url, "--timeout", "5s")
    replaying.wait_for_rows(40)

    os.kill(engine.pid, signal.SIGKILL)
    done = replaying.end()

    statuses = done.requests["status"].value_counts()
    assert statuses.sum() == 160
    assert statuses["ok"] >= 40
    assert statuses["error"] > 20
    assert statuses.get("stream_error", 0) < 20
    refused = done.requests[done.requests["status"] == "error"]["error"]
    assert refused.str.contains("Connection refused").any()
    assert any("metrics" in event["what"] for event in done.manifest["events"])
    assert done.code == 4
    assert (done.run / "report" / "index.html").exists()


def test_ctrl_c_ends_with_everything_written_and_a_report(begun: Begin) -> None:
    replaying = begun()
    children = replaying.children()

    replaying.process.send_signal(signal.SIGINT)
    done = replaying.end()

    expect_no_driver(children)
    assert done.code == 0, done.err
    assert done.manifest["state"] == "stopped"
    rows = done.requests
    due = int(done.manifest["ended_s"] / 0.05)
    assert abs(len(rows) - due) <= 10
    assert set(rows["status"]) <= {"ok", "cancelled"}
    assert "stopped" in done.out
    assert not (done.run / ".drive").exists()


def test_a_full_disk_ends_the_run_with_what_was_written_before(
    emulator: StartEmulator, write_trace: WriteTrace, tmp_path: Path
) -> None:
    """A limit on the size of files stands for the disk: first parts fit, those of the rush do not."""
    engine = emulator("--profile", "tiny")
    rows = [{"request_id": f"calm{i}", "arrival_s": i * 0.1} for i in range(30)]
    rows += [
        {"request_id": f"rush{i}", "arrival_s": 3 + i * 0.01, "output_tokens": 200}
        for i in range(1500)
    ]
    run = tmp_path / "full"
    command = f"ulimit -f 40; exec {sys.executable} -m loadkit replay {write_trace(rows)}"
    command += f" --target {engine.url} -o {run}"

    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 2, ended.stderr
    assert "cannot be written" in ended.stderr
    assert "hint: free some disk" in ended.stderr
    assert len(pd.read_parquet(run / "requests")) > 0
    assert "Traceback" not in ended.stderr


def test_locusts_own_page_is_there_while_it_runs(begun: Begin) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    replaying = begun("--web", str(port))

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats/requests", timeout=5) as answer:
        page = answer.read().decode()
    replaying.process.send_signal(signal.SIGINT)
    done = replaying.end()

    assert '"TTFT"' in page
    assert done.manifest["state"] == "stopped"


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_ctrl_c_before_the_workers_are_there_ends_it_all_the_same(
    emulator: StartEmulator,
    start_replay: StartReplay,
    write_trace: WriteTrace,
    options: tuple[str, ...],
) -> None:
    trace = write_trace([{"arrival_s": i * 0.05} for i in range(1200)])
    replaying = start_replay(trace, emulator("--profile", "tiny").url, *options)
    until_s = time.monotonic() + 30
    while not replaying.children().keys() & {"local", "worker"} and time.monotonic() < until_s:
        time.sleep(0.02)
    time.sleep(0.2)  # the last worker is started too

    replaying.process.send_signal(signal.SIGINT)
    done = replaying.end()

    assert done.manifest["state"] == "stopped"
    assert done.requests["sent_s"].notna().sum() == 0


def test_the_command_is_killed_while_the_workers_start(
    emulator: StartEmulator, start_replay: StartReplay, write_trace: WriteTrace
) -> None:
    trace = write_trace([{"arrival_s": i * 0.05} for i in range(1200)])
    replaying = start_replay(trace, emulator("--profile", "tiny").url, "--workers", "2")
    until_s = time.monotonic() + 30
    while not replaying.children().keys() & {"worker"} and time.monotonic() < until_s:
        time.sleep(0.02)
    children = replaying.children()

    replaying.process.kill()
    replaying.end()

    assert gone(children["master"], within_s=15)
    assert gone(children["worker"], within_s=15)


def test_a_run_goes_on_when_nobody_reads_its_progress(
    emulator: StartEmulator, start_replay: StartReplay, write_trace: WriteTrace
) -> None:
    trace = write_trace([{"arrival_s": i * 0.1} for i in range(20)])
    replaying = start_replay(trace, emulator("--profile", "tiny").url)
    assert replaying.process.stderr is not None

    replaying.process.stderr.close()
    replaying.process.stderr = None
    done = replaying.end()

    assert done.code == 0
    assert len(done.requests) == 20
