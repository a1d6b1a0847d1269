"""`loadkit gate run` against the emulator: a few short runs in turn, judged, and gone on with."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import StartEmulator


@pytest.fixture
def day(tmp_path: Path) -> Path:
    rows = ["arrival_s,lane,prompt_tokens,output_tokens"]
    rows += [f"{n / 10},interactive,20,5" for n in range(300)]
    path = tmp_path / "day.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def typed(day: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "loadkit", "gate", "run", "--trace", str(day), "--rates", "8rps", "--measure",
        "3s", "--pairs", "2", "-o", str(day.parent / "gate"), "--json", *more,
    ]  # fmt: skip


def ended(words: list[str]) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(words, check=False, capture_output=True, timeout=110)


def made(folder: Path) -> list[str]:
    """Sides in the order in which their runs were made."""
    runs = [json.loads(path.read_text()) | {"at": path} for path in folder.glob("*/load*/run.json")]
    return [
        run["at"].parent.parent.name for run in sorted(runs, key=lambda run: run["created_utc"])
    ]


def test_both_servers_are_run_in_turn_on_the_same_requests_and_judged(
    day: Path, emulator: StartEmulator
) -> None:
    old, new = emulator("--profile", "tiny"), emulator("--profile", "tiny")
    urls = ("--base-url", old.url, "--new-url", new.url)
    first = ended(typed(day, *urls))
    assert first.returncode == 1, first.stderr.decode()  # two pairs settle nothing
    told: Any = json.loads(first.stdout)
    assert told["verdict"] == "INCONCLUSIVE"
    assert told["loads"][0]["interleaved"]
    assert len({run["path"] for run in told["loads"][0]["runs"]}) == 4
    assert made(day.parent / "gate") == ["base", "new", "new", "base"]
    assert (day.parent / "gate" / "report" / "junit.xml").exists()

    again = ended(typed(day, *urls))
    assert json.loads(again.stdout) == told
    assert b"run 1 of" not in again.stderr


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (("--base-url", "http://127.0.0.1:9", "--new-url", "http://127.0.0.1:9"), 4, "127.0.0.1:9"),
        (("--base-url", "x", "--new-url", "y"), 2, "not the URL of a server"),
        (("--base-url", "", "--new-url", "y"), 2, "no target"),
        (("--search", "nowhere"), 2, "Missing option"),
    ],
)
def test_bad_input_is_told_in_two_lines(
    day: Path, more: tuple[str, ...], code: int, says: str
) -> None:
    done = ended(typed(day, *more))
    lines = done.stderr.decode().splitlines()
    assert done.returncode == code
    assert any(says in line for line in lines)
    assert not list((day.parent / "gate").glob("*/load*/run.json"))
