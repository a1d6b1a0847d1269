"""`loadkit sim` over several policies ends in their comparison."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from loadkit.analysis.comparison.occupancy import occupancy
from loadkit.analysis.facts import load
from loadkit.cli import app
from loadkit.records import RunDir


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


def test_the_lanes_of_the_slots_in_use_are_known_although_one_was_evicted(
    trace: Path, tmp_path: Path
) -> None:
    """The batch job runs from 0 to 2, is evicted for the second of the other, and runs on to 14."""
    sim(trace, "--slots", 1, "--policy", "preempt", "--preempt-cost", "3s", "-o", tmp_path / "run")

    used = occupancy(load(RunDir.open(tmp_path / "run")))

    assert used is not None
    held_s = {lane: float(of.sum() * used.edges_s[1]) for lane, of in used.running.items()}
    assert held_s == {
        "batch": pytest.approx(13, abs=0.1),
        "interactive": pytest.approx(1, abs=0.1),
    }


def test_an_slo_without_a_comparison_is_refused(trace: Path, tmp_path: Path) -> None:
    slo = ("--slo", "interactive:queue_wait:p99:1s")

    alone = sim(trace, "--policy", "fifo", "-o", tmp_path / "a", *slo)
    unsaid = sim(trace, "--policy", "fifo", "--policy", "priority", "--json", *slo)

    for refused in (alone, unsaid):
        assert refused.exit_code != 0
        assert "--slo is for the comparison" in str(refused.exception)
    assert not (tmp_path / "a").exists()


def test_the_printed_tables_are_the_same_with_and_without_run_directories(
    trace: Path, tmp_path: Path
) -> None:
    policies = ("--policy", "priority", "--policy", "preempt")
    asked = (trace, "--slots", 1, "--preempt-cost", "3s", *policies)

    printed = sim(*asked).output
    kept = sim(*asked, "-o", tmp_path / "both").output
    compared = CliRunner().invoke(
        app, ["compare", *(str(tmp_path / "both" / name) for name in ("priority", "preempt")),
              "-o", str(tmp_path / "again")],
    ).output  # fmt: skip

    tables = printed[printed.index("Lane interactive") :].strip()
    assert "8.00\N{NO-BREAK SPACE}s" in tables  # from second 2 to 10
    assert tables in kept
    assert tables in compared
    assert list(tmp_path.glob("compare-*")) == []


def test_json_without_run_directories_compares_nothing_and_draws_nothing(trace: Path) -> None:
    told = json.loads(sim(trace, "--policy", "fifo", "--policy", "priority", "--json").stdout)
    assert [of["policy"] for of in told["policies"]] == ["fifo", "priority"]
    assert told["comparison"] is None


def test_half_as_long_batch_jobs_are_compared_and_said_to_be_other_work(
    trace: Path, tmp_path: Path
) -> None:
    asked = (trace, "--slots", 1, "--policy", "priority")
    sim(*asked, "-o", tmp_path / "whole")
    sim(*asked, "--batch-service", "0.5x", "-o", tmp_path / "half")

    done = CliRunner().invoke(
        app, ["compare", str(tmp_path / "whole"), str(tmp_path / "half"), "-o", str(tmp_path / "c")]
    )

    assert done.output.startswith("OTHER WORK priority · batch service 0.5x")
    for name in ("index.html", "summary.md", "comparison.json"):
        assert "batch jobs are half as long" in (tmp_path / "c" / name).read_text("utf-8")
    told = json.loads((tmp_path / "c" / "comparison.json").read_text())
    waits_s = [run["lanes"]["interactive"]["queue_wait_max_s"] for run in told["runs"]]
    assert waits_s == [8.0, 3.0]  # the long job ends at 10 s, or at 5 s


def test_another_trace_with_the_same_instants_is_refused(trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(trace.read_text("utf-8").replace("batch,10", "batch,9"))
    for path in (trace, other):
        sim(path, "--policy", "priority", "-o", tmp_path / path.stem)
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "two"), str(tmp_path / "other")])
    assert "other work at the same instants" in str(done.exception)


@pytest.mark.parametrize(
    "flag", [("--tick", "1s"), ("--batch-service", "2x"), ("--preempt-cost", "1s")]
)
def test_flags_that_the_engine_model_has_no_use_for_are_refused(
    trace: Path, flag: tuple[str, str]
) -> None:
    done = sim(trace, "--level", "token", *flag)
    assert f"{flag[0]} is of no use at token level" in str(done.exception)


def test_what_comes_after_the_horizon_has_no_row(trace: Path, tmp_path: Path) -> None:
    sim(trace, "--slots", 1, "--policy", "fifo", "--horizon", "1s", "-o", tmp_path / "run")
    rows = pd.read_parquet(tmp_path / "run" / "requests")
    assert rows["request_id"].tolist() == ["long"]
    assert rows["status"].tolist() == ["cancelled"]
    assert rows["error"].tolist() == ["still running at the end of the simulation"]
    assert rows["finished_s"].isna().all()


def test_the_engine_model_tells_what_runs_by_lane(tmp_path: Path) -> None:
    """Steps of 20 ms, one token each: 500 batch tokens run 10 s, 100 interactive ones 2 s from second 3."""
    path = tmp_path / "tokens.csv"
    path.write_text(
        "request_id,arrival_s,lane,prompt_tokens,output_tokens\n"
        "b,0,batch,10,500\ni,3,interactive,10,100\n"
    )
    out = tmp_path / "run"

    done = sim(path, "--profile", "steady", "--slots", 4, "--policy", "priority", "-o", out)

    assert done.exit_code == 0, done.output
    used = occupancy(load(RunDir.open(out)))
    assert used is not None
    assert not used.from_rows
    width_s = used.edges_s[1]
    batch_s, interactive_s = (
        float(used.running[lane].sum() * width_s) for lane in ("batch", "interactive")
    )
    assert batch_s == pytest.approx(10, abs=1)  # samples are a second apart
    assert interactive_s == pytest.approx(2, abs=1)
