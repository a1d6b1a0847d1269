"""`loadkit trace` as its user types it, in a process of its own where exit codes matter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadkit.cli.trace import app
from loadkit.cli.trace_view import bars
from loadkit.trace import read_table

MINIMAL = "arrival_s,prompt_tokens,output_tokens"
DESIGN_KEYS = {
    "format",
    "rows",
    "span_s",
    "lanes",
    "duplicate_timestamps",
    "quantum_s",
    "out_of_order_rows",
    "zero_token_rows",
    "segments",
    "dispersion",
}


def loadkit(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loadkit", "trace", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def ran(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(f"{MINIMAL},lane\n0,10,2,interactive\n2,20,0,interactive\n1,5,5,batch\n")
    return path


def test_show_as_json_has_the_keys_that_scripts_build_on(small: Path) -> None:
    told = json.loads(ran("show", small, "--json"))
    assert told.keys() >= DESIGN_KEYS
    assert (told["format"], told["rows"], told["span_s"]) == ("csv", 3, 2.0)
    assert (told["out_of_order_rows"], told["zero_token_rows"], told["segments"]) == (1, 1, 1)
    assert told["quantum_s"] is None
    assert told["dispersion"].keys() == {"1s", "10s", "60s"}
    lane = told["lanes"]["interactive"]
    assert (lane["rows"], lane["rate_rps"]) == (2, 1.0)
    assert lane["prompt_tokens"]["p50"] == 10
    assert lane["prompt_tokens"]["p99"] == 20


def test_show_tells_a_person_the_same(small: Path) -> None:
    told = ran("show", small)
    for words in ("3 rows", "interactive", "batch", "zero tokens", "1 sorted", "larger of 60 s"):
        assert words in told


def test_convert_counts_what_it_did_and_keeps_an_existing_file(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    told = ran("convert", small, out, "--lane", "batch")
    assert "read 3 rows, dropped 0" in told
    assert "repaired 1: sorted" in told
    assert read_table(out).table["lane"].to_pylist() == ["batch"] * 3
    again = loadkit("convert", str(small), str(out))
    assert again.returncode == 2
    assert again.stderr.splitlines() == [
        f"loadkit: {out}: exists already",
        "  hint: choose another name, or add --force",
    ]
    assert json.loads(ran("convert", small, out, "--force", "--json"))["rows_read"] == 3


def test_synth_makes_a_file_that_show_reads(tmp_path: Path) -> None:
    out = tmp_path / "day.parquet"
    ran("synth", "--duration", "60s", "--day", "60s", "--rate", "3rps", "-o", out)
    told = json.loads(ran("show", out, "--json"))
    assert told["lanes"].keys() == {"interactive", "batch"}
    assert told["sessions"]["sessions"] > 50


def test_the_same_command_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        ran("synth", "--duration", "30s", "--rate", "4rps", "--seed", "9", "-o", tmp_path / name)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ("show", "none.csv"),
        ("convert", "small.csv", "o.parquet", "--dejitter", "3s"),
        ("convert", "small.csv", "o.parquet", "--lane", "two words"),
        ("show", "small.csv", "--time-unit", "min"),
        ("show", "small.csv", "--format", "xml"),
        ("synth", "-o", "x.parquet", "--rate", "3"),
        ("synth", "-o", "x.parquet", "--preset", "lunar"),
    ],
)
def test_a_wrong_word_ends_in_two_lines_and_exit_code_2(
    small: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(small.parent)
    result = loadkit(*words)
    lines = result.stderr.splitlines()
    assert result.returncode == 2
    assert len(lines) == 2
    assert lines[0].startswith("loadkit: ")
    assert lines[1].startswith("  hint: ")
    assert not result.stdout


def test_bars_show_the_greatest_as_full_and_the_smallest_as_something() -> None:
    assert bars([0.0, 0.01, 5.0, 10.0]) == " ▁▄█"
    assert bars([0.0, 0.0]) == "  "
