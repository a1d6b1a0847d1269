"""`loadkit sim` over several policies ends in their comparison."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from loadkit.cli import app


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One slot, held by a batch job for 10 s when an interactive job of 1 s comes at second 2."""
    path = tmp_path / "two.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["request_id", "arrival_s", "lane", "service_s"])
        writer.writerow(["long", 0, "batch", 10])
        writer.writerow(["short", 2, "interactive", 1])
    return path


def sim(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["sim", *map(str, arguments)])


def test_many_policies_end_in_a_report_that_names_the_one_to_run(
    trace: Path, tmp_path: Path
) -> None:
    out = tmp_path / "policies"

    done = sim(
        *(trace, "--slots", 1, "--policy", "priority", "--policy", "preempt", "-o", out),
        *("--preempt-cost", "3s", "--slo", "interactive:queue_wait:p99:1s"),
    )

    assert done.exit_code == 0, done.output
    assert "preempt meets every SLO" in done.output
    assert {path.name for path in out.iterdir()} == {"priority", "preempt", "comparison"}
    told = json.loads((out / "comparison" / "comparison.json").read_text())
    waits_s = {
        run["label"]: run["lanes"]["interactive"]["queue_wait_p99_s"] for run in told["runs"]
    }
    assert waits_s == {"priority": 8.0, "preempt": 0.0}


def test_slots_in_use_are_known_also_where_jobs_were_evicted(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"

    sim(trace, "--slots", 1, "--policy", "preempt", "--preempt-cost", "3s", "-o", out)

    samples = pd.read_parquet(out / "metrics")
    running = samples[samples["name"] == "requests_running"]
    assert running["t_s"].max() == 14.0  # 10 s and 1 s of work, 3 s to recover
    assert running["value"].tolist() == pytest.approx([1.0] * len(running))


def test_an_slo_without_a_comparison_is_refused(trace: Path, tmp_path: Path) -> None:
    slo = ("--slo", "interactive:queue_wait:p99:1s")

    alone = sim(trace, "--policy", "fifo", "-o", tmp_path / "a", *slo)
    nowhere = sim(trace, "--policy", "fifo", "--policy", "priority", *slo)

    for refused in (alone, nowhere):
        assert refused.exit_code != 0
        assert "--slo is for the comparison" in str(refused.exception)
    assert not (tmp_path / "a").exists()
