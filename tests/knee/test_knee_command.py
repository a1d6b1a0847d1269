"""`loadkit knee` as its user types it, in virtual time and against the emulator."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import StartEmulator
from loadkit.cli import app, main
from loadkit.core import EngineLimits, parse_policy, profile_from_toml
from loadkit.model import Send
from loadkit.sim import EngineModel, simulate_tokens

PROFILE = "base_s = 0.01\nprefill_s_per_token = 20e-6\nkv_blocks = 65536\n"
SLOTS, PROMPT_TOKENS, THRESHOLD_S = 4, 20, 0.3
SLO = "interactive:ttft:p99:300ms"


def lengths(count: int, rng: np.random.Generator) -> list[int]:
    drawn: list[int] = np.clip(rng.lognormal(np.log(15), 0.6, count), 1, 100).astype(int).tolist()
    return drawn


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """Ten minutes of Poisson arrivals at 10 a second, and a batch row every five seconds."""
    rng = np.random.default_rng(4)
    at_s = np.sort(rng.uniform(0, 600, 6000)).tolist()
    rows = ["arrival_s,lane,prompt_tokens,output_tokens"]
    rows += [
        f"{at:.4f},interactive,{PROMPT_TOKENS},{tokens}"
        for at, tokens in zip(at_s, lengths(6000, rng), strict=True)
    ]
    rows += [f"{at},batch,{PROMPT_TOKENS},200" for at in range(0, 600, 5)]
    path = tmp_path / "day.csv"
    path.write_text("\n".join(rows) + "\n")
    (tmp_path / "speed.toml").write_text(PROFILE)
    return path


def arguments(day: Path, *more: str, out: str = "search") -> list[str]:
    return [
        "knee", str(day), "--target", f"sim:{day.parent / 'speed.toml'}", "--slots", str(SLOTS),
        "--slo", SLO, "--warm", "5s", "--measure", "30s", "-o", str(day.parent / out), *more,
    ]  # fmt: skip


def run(typed: Sequence[str]) -> Any:
    return CliRunner().invoke(app, list(typed))


def found(typed: Sequence[str], code: int = 0) -> Any:
    result = run([*typed, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


Refused = Callable[[Sequence[str]], tuple[object, list[str]]]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Exit code and lines of what is typed wrongly."""

    def typing(typed: Sequence[str]) -> tuple[object, list[str]]:
        monkeypatch.setattr(sys, "argv", ["loadkit", *typed])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr().err.splitlines()

    return typing


def missed_share(rate_rps: float) -> float:
    """Of an hour of virtual time that the search never saw."""
    rng = np.random.default_rng(99)
    at_s = np.sort(rng.uniform(0, 40_000 / rate_rps, 40_000)).tolist()
    sends = [
        Send(str(n), at, "interactive", PROMPT_TOKENS, tokens)
        for n, (at, tokens) in enumerate(zip(at_s, lengths(40_000, rng), strict=True))
    ]
    speed = profile_from_toml(PROFILE)
    limits = EngineLimits(max_num_seqs=SLOTS, kv_blocks=speed.kv_blocks)
    result = simulate_tokens(sends, parse_policy("fifo"), EngineModel(limits, speed.cost))
    firsts = [(one.send.scheduled_s, one.seq.first_token_s) for one in result.served if one.seq]
    return float(np.mean([(first or np.inf) - due > THRESHOLD_S for due, first in firsts]))


def test_the_interval_holds_the_rate_at_which_the_long_run_misses_one_in_a_hundred(
    day: Path,
) -> None:
    told = found(arguments(day, "--lane", "interactive"))
    capacity = told["capacity_at_slo"]
    assert missed_share(capacity["low"]) < 0.01 < missed_share(capacity["high"])
    assert 0.5 < capacity["utilisation"]["value"] < 1
    assert told["turn_up"]["rps"] and told["saturation"]["rps"]
    page = (day.parent / "search" / "report" / "index.html").read_text()
    assert f"{capacity['rps']:.1f} requests/s" in page


def test_one_lane_in_company_and_alone(day: Path) -> None:
    told = found(arguments(day, "--scale-lane", "interactive", "--and-alone", "--samples", "3"))
    shared, alone = told["capacity_at_slo"], told["alone"]["capacity_at_slo"]
    assert shared["rps"] < alone["rps"]
    assert told["sharing"]["cost"] == pytest.approx(1 - shared["rps"] / alone["rps"])
    report = run(["report", str(day.parent / "search")])
    assert "What sharing costs" in report.output


def test_a_search_that_was_interrupted_goes_on_to_the_same_answer(day: Path) -> None:
    whole = found(arguments(day, "--samples", "4", out="whole"))
    typed = [sys.executable, "-m", "loadkit", *arguments(day, "--samples", "4", out="cut")]
    steps = day.parent / "cut" / "steps"
    process = subprocess.Popen(typed, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    until_s = time.monotonic() + 60
    while len(list(steps.glob("0[3-9]*"))) == 0 and time.monotonic() < until_s:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    unfinished = run(["report", str(day.parent / "cut")])
    assert "UNFINISHED" in unfinished.output
    resumed = found(arguments(day, "--samples", "4", out="cut"))
    assert resumed["capacity_at_slo"] == whole["capacity_at_slo"]
    assert [s["rate_rps"] for s in resumed["steps"]] == [s["rate_rps"] for s in whole["steps"]]


def test_a_finished_search_is_not_measured_again(day: Path) -> None:
    first = found(arguments(day, "--rates", "5,10rps"), code=1)
    runs = sorted((day.parent / "search" / "steps").iterdir())
    assert found(arguments(day, "--rates", "5,10rps"), code=1) == first
    assert sorted((day.parent / "search" / "steps").iterdir()) == runs


def test_what_was_not_reached_is_said_and_nothing_is_guessed(day: Path) -> None:
    told = found(arguments(day, "--rates", "1rps, 2rps"), code=1)
    assert told["status"] == "not reached"
    assert told["capacity_at_slo"]["rps"] is None
    assert told["capacity_at_slo"]["low"] <= 2
    assert "NOT REACHED" in run(["report", str(day.parent / "search")]).output


def test_a_server_that_is_over_at_the_lowest_load(day: Path) -> None:
    told = found(arguments(day, "--rates", "60,80rps"), code=1)
    assert told["status"] == "over at the lowest load"
    assert told["capacity_at_slo"]["rps"] is None


def test_the_budget_is_kept_and_said(day: Path) -> None:
    result = run(arguments(day, "--budget", "3m"))
    assert "at most 3 min" in result.output
    told = json.loads((day.parent / "search" / "report" / "summary.json").read_text())
    runs = [json.loads(p.read_text()) for p in (day.parent / "search" / "steps").glob("*/run.json")]
    assert sum(manifest["ended_s"] for manifest in runs) <= 180
    assert "budget of 3 min" in told["ended_why"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--slo", "chat:ttft:p99:1s"), "lane 'chat' is not in the trace"),
        (("--scale-lane", "chat"), "lane 'chat' is not in the trace"),
        (("--scale-lane", "batch"), "not among those of --scale-lane"),
        (("--and-alone",), "no lane is searched by itself"),
        (("--rates", "5,x"), "--rates '5,x' is no list of rates"),
        (("--rates", "0"), "no list of rates"),
        (("--rates", "inf"), "no list of rates"),
        (("--budget", "10s"), "shorter than one step"),
        (("--rates", "5,10rps", "--budget", "40s"), "shorter than one step"),
        (
            ("--scale-lane", "interactive", "--and-alone", "--budget", "60s"),
            "shorter than one step",
        ),
        (("--rates", "5rps", "--samples", "4"), "--rates names every step"),
        (("--measure", "0s"), "leaves no time"),
        (("--warm", "20m"), "the trace lasts"),
        (("--target", "sim:nope"), "nope"),
        (("--target", "http://127.0.0.1:9"), "127.0.0.1:9"),
        (("--policy", "fancy"), "fancy"),
        (("--slo", "interactive:ttft:p99"), "interactive:ttft:p99"),
        (("--max-model-len", "10"), "longer than the context of 10 tokens"),
        (("--start", "0rps"), "0rps"),
    ],
)
def test_bad_input_is_told_in_two_lines_and_measures_nothing(
    day: Path, refused: Refused, more: tuple[str, ...], says: str
) -> None:
    code, lines = refused(arguments(day, *more))
    assert code == (4 if "127.0.0.1" in says else 2)
    assert says in lines[0]
    assert len(lines) <= 2
    assert not list((day.parent / "search").glob("steps/*/run.json"))


def test_another_search_in_the_folder_is_not_touched(day: Path, refused: Refused) -> None:
    found(arguments(day, "--rates", "5rps"), code=1)
    code, lines = refused(arguments(day, "--rates", "6rps"))
    assert code == 2
    assert "a search with another search" in lines[0]
    assert len(list((day.parent / "search" / "steps").glob("*/run.json"))) == 1


def test_a_folder_of_other_things_is_not_touched(day: Path) -> None:
    (day.parent / "search").mkdir()
    (day.parent / "search" / "thesis.txt").write_text("years of work")
    result = run(arguments(day))
    assert result.exit_code != 0
    assert [p.name for p in (day.parent / "search").iterdir()] == ["thesis.txt"]


def test_an_output_that_cannot_be_a_folder_is_refused(day: Path, refused: Refused) -> None:
    (day.parent / "search").write_text("a file")
    code, lines = refused(arguments(day))
    assert code == 2
    assert "is no search" in lines[0]
    assert (day.parent / "search").read_text() == "a file"


def test_requests_that_cannot_fit_are_left_out_and_told(day: Path) -> None:
    result = run(arguments(day, "--rates", "5rps", "--max-model-len", "150"))
    assert "120 of 6,120 requests are longer than the context of 150 tokens" in result.output


@pytest.mark.slow
def test_a_live_search_stops_hopeless_steps_and_ends_in_a_report(
    day: Path, emulator: StartEmulator
) -> None:
    server = emulator("--profile", str(day.parent / "speed.toml"), "--slots", str(SLOTS))
    typed = [
        sys.executable, "-m", "loadkit", "knee", str(day), "--target", server.url, "--slo", SLO,
        "--lane", "interactive", "--warm", "2s", "--measure", "12s", "--samples", "4",
        "--start", "8rps", "--seed", "3", "-o", str(day.parent / "live"), "--json",
    ]  # fmt: skip
    done = subprocess.run(typed, check=False, capture_output=True, env={**os.environ})
    assert done.returncode in (0, 1), done.stderr.decode()
    told = json.loads(done.stdout)
    over = [s for s in told["steps"] if s["role"] == "bracket" and s["measure_s"] < 12]
    assert over, "no step of the bracket was stopped early"
    assert all(step["missed"] > 0.03 * step["requests"] for step in over)
    assert told["capacity_at_slo"]["rps"] is not None
    assert (day.parent / "live" / "report" / "index.html").exists()
