"""`loadkit gate` as its user types it, on simulated and on hand-made live runs."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from typer.testing import CliRunner

from loadkit.cli import app, main
from loadkit.model import RequestRecord
from synthetic_run import answered, write_run

SCHEDULE = {"sha256": "cd" * 32, "requests": 150, "mean_rate_rps": 5.0}
HOSTILE = "<script>alert(1)</script>"


def release(
    folder: Path, factors: Sequence[float], minute: int, lane: str = "interactive", **more: Any
) -> Path:
    """Runs whose first tokens take 0.1 to 0.3 s times the factor, made every other minute from `minute`."""
    for number, factor in enumerate(factors):
        rows = [
            _row(f"r{n}", n * 0.2, (0.1 + 0.2 * n / 150) * factor, lane, **more) for n in range(150)
        ]
        made = f"2026-01-01T00:{minute + 2 * number:02d}:00+00:00"
        write_run(folder / str(number), rows, created_utc=made, schedule=SCHEDULE)
    return folder


def _row(name: str, due_s: float, ttft_s: float, lane: str, **more: Any) -> RequestRecord:
    return answered(name, due_s, ttft_sent_s=ttft_s, lane=lane, **more)


def typed(*words: str) -> tuple[int, Any]:
    result = CliRunner().invoke(app, ["gate", *words, "--json"])
    return result.exit_code, json.loads(result.stdout) if result.stdout.startswith("{") else result


LUCK = (1.0, 1.01, 0.99, 1.02, 0.98)
OTHER_LUCK = (1.01, 0.99, 1.0, 1.0, 1.01)


def test_a_release_that_is_as_fast_passes(tmp_path: Path) -> None:
    old, new = release(tmp_path / "old", LUCK, 0), release(tmp_path / "new", OTHER_LUCK, 1)
    code, told = typed(str(old), "--", str(new), "-o", str(tmp_path / "gate"))
    assert (code, told["verdict"]) == (0, "NO REGRESSION BEYOND")
    assert told["loads"][0]["interleaved"] is True
    assert told["cautions"] == []
    schema = Path(__file__).parents[2] / "docs" / "gate.schema.json"
    jsonschema.validate(told, json.loads(schema.read_text()))


def test_a_release_that_is_a_fifth_slower_fails_and_says_by_how_much(tmp_path: Path) -> None:
    slow = [1.2 * luck for luck in OTHER_LUCK]
    old, new = release(tmp_path / "old", LUCK, 0), release(tmp_path / "new", slow, 1)
    rules = ("--max-regress", "ttft:p50:5%", "--max-regress", "ttft:p99:10%")
    code, told = typed(str(old), "--", str(new), *rules, "-o", str(tmp_path / "gate"))
    assert (code, told["verdict"]) == (1, "REGRESSION")
    for metric in told["metrics"]:
        assert metric["change"] == pytest.approx(0.2, abs=0.02)
        assert metric["low"] < 0.2 < metric["high"]
    cases = ET.parse(tmp_path / "gate" / "junit.xml").getroot()
    assert (cases.get("tests"), cases.get("failures")) == ("2", "2")
    assert "REGRESSION" in (tmp_path / "gate" / "summary.md").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("part", "cause"), [("queue_wait_s", "queue wait"), ("prefill_s", "prefill")]
)
def test_what_made_the_first_token_later_is_told(tmp_path: Path, part: str, cause: str) -> None:
    def parts(extra_s: float) -> dict[str, Any]:
        told = {"queue_wait_s": 0.02, "queue_wait_source": "response", "prefill_s": 0.05}
        return told | {part: float(told[part]) + extra_s}  # type: ignore[arg-type]

    slow = [1.2 * luck for luck in OTHER_LUCK]
    old = release(tmp_path / "old", LUCK, 0, **parts(0.0))
    new = release(tmp_path / "new", slow, 1, **parts(0.04))
    _, told = typed(
        str(old), "--", str(new), "--max-regress", "ttft:p99:10%", "-o", str(tmp_path / "gate")
    )
    assert [metric["cause"] for metric in told["metrics"]] == [cause]


@pytest.mark.parametrize(("choice", "code"), [("pass", 0), ("fail", 1)])
def test_what_the_exit_code_makes_of_inconclusive_is_chosen(
    tmp_path: Path, choice: str, code: int
) -> None:
    wild = (1.3, 0.8, 1.0, 1.25, 0.75)
    old, new = release(tmp_path / "old", LUCK, 0), release(tmp_path / "new", wild, 1)
    said, told = typed(
        str(old), "--", str(new), "--max-regress", "ttft:p99:10%", "--inconclusive", choice,
        "-o", str(tmp_path / "gate"),
    )  # fmt: skip
    assert (said, told["verdict"]) == (code, "INCONCLUSIVE")
    assert told["metrics"][0]["pairs_needed"] > 5


def test_one_run_of_each_settles_nothing(tmp_path: Path) -> None:
    old, new = release(tmp_path / "old", (1.0,), 0), release(tmp_path / "new", (2.0,), 1)
    code, told = typed(str(old), "--", str(new), "-o", str(tmp_path / "gate"))
    assert (code, told["verdict"]) == (1, "INCONCLUSIVE")


def test_runs_of_one_release_after_those_of_the_other_are_warned_of(tmp_path: Path) -> None:
    old, new = release(tmp_path / "old", LUCK, 0), release(tmp_path / "new", OTHER_LUCK, 30)
    _, told = typed(str(old), "--", str(new), "-o", str(tmp_path / "gate"))
    assert any("in turn" in text for text in told["cautions"])


def test_an_invalid_run_makes_no_number(tmp_path: Path) -> None:
    old, new = release(tmp_path / "old", LUCK, 0), release(tmp_path / "new", OTHER_LUCK, 1)
    rows = [_row(f"r{n}", n * 0.2, 0.1, "interactive") for n in range(150)]
    write_run(new / "9", rows, schedule=SCHEDULE, state="failed", ended_why="the worker died")
    code, told = typed(str(old), "--", str(new), "-o", str(tmp_path / "gate"))
    assert (code, told["verdict"]) == (3, "INVALID")
    assert all(metric["change"] is None for metric in told["metrics"])


def test_a_lane_that_only_one_side_has_is_invalid(tmp_path: Path) -> None:
    old = release(tmp_path / "old", LUCK, 0)
    new = release(tmp_path / "new", OTHER_LUCK, 1, lane="batch")
    code, told = typed(str(old), "--", str(new), "-o", str(tmp_path / "gate"))
    assert (code, told["verdict"]) == (3, "INVALID")


def test_names_from_elsewhere_cannot_do_anything_in_the_page(tmp_path: Path) -> None:
    old = release(tmp_path / "old", LUCK, 0, lane=HOSTILE)
    new = release(tmp_path / "new", OTHER_LUCK, 1, lane=HOSTILE)
    typed(str(old), "--", str(new), "-o", str(tmp_path / "gate"))
    page = (tmp_path / "gate" / "index.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert ET.parse(tmp_path / "gate" / "junit.xml").getroot()[0].get("classname") == HOSTILE


Refused = Callable[..., tuple[object, list[str]]]


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Refused:
    release(tmp_path / "old", LUCK[:3], 0)
    release(tmp_path / "new", OTHER_LUCK[:3], 1)
    monkeypatch.chdir(tmp_path)

    def typing(*words: str) -> tuple[object, list[str]]:
        monkeypatch.setattr(sys, "argv", ["loadkit", "gate", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err.splitlines()

    return typing


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("old", "new"), "not told apart"),
        (("old", "--"), "both releases are needed"),
        (("old", "--", "old"), "given twice"),
        (("old", "--", "nowhere"), "nowhere"),
        (("old", "--", "new", "--max-regress", "ttft:p99"), "'p99' is not a percentage"),
        (("old", "--", "new", "--max-regress", "ttft:p99:-5%"), "'-5%' is not a percentage"),
        (("old", "--", "new", "--max-regress", "ttft:p99:nan%"), "'nan%' is not a percentage"),
        (("old", "--", "new", "--max-regress", "speed:p99:5%"), "no such metric"),
        (("old", "--", "new", "--max-regress", "ttft:p42:5%"), "no such metric"),
        (("old", "--", "new", "--inconclusive", "maybe"), "'maybe' is unknown"),
        (("old", "--", "new", "-o", "old"), "holds no verdict"),
    ],
)
def test_bad_input_is_told_in_two_lines(
    refused: Refused, words: tuple[str, ...], says: str
) -> None:
    code, lines = refused(*words)
    assert code == 2
    assert says in lines[0]
    assert len(lines) <= 2


def test_runs_of_different_schedules_are_refused(tmp_path: Path, refused: Refused) -> None:
    rows = [_row(f"x{n}", n * 0.3, 0.1, "interactive") for n in range(90)]
    write_run(tmp_path / "odd" / "0", rows, schedule={**SCHEDULE, "sha256": "ef" * 32})
    code, lines = refused("old", "--", "odd")
    assert code == 2
    assert "the same requests at the same instants" in lines[0]
