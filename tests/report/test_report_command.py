"""`loadkit report RUN`, as its user runs it."""

import json
from pathlib import Path

import pytest
from synthetic_run import answered, failed, write_run
from typer.testing import CliRunner

from loadkit.cli import app
from loadkit.errors import RunError

ROWS = [answered(str(i), i * 0.1) for i in range(20)]
SLO = {"lane": "interactive", "metric": "ttft", "quantile": 0.9, "threshold_s": 0.001}


def test_it_prints_the_summary_and_exits_with_0(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ROWS)
    result = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
    assert (result.exit_code, result.output.splitlines()[0].split()[0]) == (0, "VALID")
    assert (tmp_path / "run" / "report" / "index.html").exists()


def test_json_is_the_whole_standard_output(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [*ROWS, failed("x", 1.0, "timeout")])
    result = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--json"])
    assert json.loads(result.stdout)["lanes"]["interactive"]["offered"] == 21


def test_the_exit_code_tells_a_missed_slo_from_an_invalid_run(tmp_path: Path) -> None:
    write_run(tmp_path / "slow", ROWS, slos=(SLO,))
    write_run(tmp_path / "broken", ROWS, slos=(SLO,), state="running", ended_s=None)
    runs = [
        CliRunner().invoke(app, ["report", str(tmp_path / name)]) for name in ("slow", "broken")
    ]
    assert [run.exit_code for run in runs] == [1, 3]


def test_a_folder_that_is_no_run_is_a_usage_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(result.exception, RunError)
    assert result.exception.exit_code == 2
    with pytest.raises(RunError, match="not a run directory"):
        raise result.exception
