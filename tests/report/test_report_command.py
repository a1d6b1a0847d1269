"""`loadkit report RUN`, as its user runs it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loadkit.cli import app
from loadkit.errors import RunError
from synthetic_run import answered, failed, write_run

ROWS = [answered(str(i), i * 0.1) for i in range(20)]
SLO = {"lane": "interactive", "metric": "ttft", "quantile": 0.9, "threshold_s": 0.001}


def run_report(run: Path, *flags: str) -> Result:
    return CliRunner().invoke(app, ["report", str(run), *flags])


def test_it_writes_the_report_and_prints_the_summary(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ROWS)
    result = run_report(tmp_path / "run")
    assert (result.exit_code, result.output.splitlines()[0].split()[0]) == (0, "VALID")
    assert (tmp_path / "run" / "report" / "index.html").exists()


def test_json_is_the_whole_standard_output_and_a_missed_slo_exits_with_1(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [*ROWS, failed("x", 1.0, "timeout")], slos=(SLO,))
    result = run_report(tmp_path / "run", "--json")
    assert json.loads(result.stdout)["lanes"]["interactive"]["offered"] == 21
    assert result.exit_code == 1


def test_an_invalid_run_exits_with_3_whatever_its_slos(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [], slos=(SLO,), state="running", ended_s=None)
    assert run_report(tmp_path / "run").exit_code == 3


def test_a_folder_that_is_no_run_is_a_usage_error(tmp_path: Path) -> None:
    result = run_report(tmp_path)
    assert isinstance(result.exception, RunError)
    assert result.exception.exit_code == 2
    with pytest.raises(RunError, match="not a run directory"):
        raise result.exception
