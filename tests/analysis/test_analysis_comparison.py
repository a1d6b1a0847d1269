"""Comparisons of runs whose truth is known: what changed, what may be compared, what to choose."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comparison_runs import JOBS, gauges, repeats, rows, run, target
from loadkit import units
from loadkit.analysis.comparison import (
    Comparison,
    Difference,
    compare,
    comparison_exit_code,
    comparison_json,
)
from loadkit.analysis.comparison.identity import why_unlike
from loadkit.analysis.comparison.occupancy import occupancy
from loadkit.analysis.facts import load
from loadkit.errors import InputError, RunError
from loadkit.records import RunDir
from synthetic_run import failed, sends_of, write_run

SLO = units.slo("interactive:queue_wait:p99:150ms")


def of(
    found: Comparison, metric: str, quantile: float | None = None, lane: str | None = "interactive"
) -> Difference:
    """The one difference of that name."""
    (one,) = (
        d
        for d in found.differences
        if (d.lane, d.measure.metric, d.measure.quantile) == (lane, metric, quantile)
    )
    return one


@pytest.fixture
def simulated(tmp_path: Path) -> Comparison:
    run(tmp_path / "a", "fifo", 2.0, 0.5, "sim")
    run(tmp_path / "b", "reserve:8", 1.0, 1.0, "sim")
    return compare([tmp_path / "a", tmp_path / "b"], slos=[SLO])


def test_a_simulated_difference_is_exact(simulated: Comparison) -> None:
    wait = of(simulated, "queue_wait", 0.99)
    assert (wait.a, wait.b) == pytest.approx((0.198, 0.099))
    assert wait.change == wait.low == wait.high == pytest.approx(-0.5)
    assert wait.verdict == "better"


def test_every_number_of_the_batch_lane_is_what_was_put_in(simulated: Comparison) -> None:
    """Job i ends (i + 1) x gap + 0.02 + 0.02 + 0.001 s after the start: the last at 10.041 and 20.041."""
    rate = of(simulated, "completed_per_h", None, "batch")
    assert (rate.a, rate.b) == pytest.approx((JOBS / 10.041 * 3600, JOBS / 20.041 * 3600))
    assert rate.verdict == "worse"
    assert of(simulated, "completed", None, "batch").verdict == "no difference shown"
    assert of(simulated, "preemptions", None, "batch").b == JOBS
    assert of(simulated, "recomputed_tokens", None, "batch").b == 7 * JOBS
    assert of(simulated, "deadline_share", None, "batch").b == 1.0


def test_the_same_request_is_compared_from_run_to_run(tmp_path: Path) -> None:
    """Medians may stay while every request changes: here the waits are dealt out in reverse."""
    flipped = rows(1.0, 1.0, "sim")
    order = [r.queue_wait_s for r in flipped[:100]][::-1]
    flipped[:100] = [r._replace(queue_wait_s=w) for r, w in zip(flipped, order, strict=False)]
    run(tmp_path / "a", "x", 1.0, source="sim")
    write_run(tmp_path / "b", flipped, target=target("y"))
    found = compare([tmp_path / "a", tmp_path / "b"])
    assert of(found, "queue_wait", 0.5).change == 0.0
    waits = np.arange(1, 101)
    expected = np.exp(np.mean(np.log(waits[::-1] / waits))) - 1
    assert of(found, "queue_wait").change == pytest.approx(expected, abs=1e-9)


def test_where_a_wait_is_zero_the_change_is_in_seconds(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 0.0, source="sim")
    run(tmp_path / "b", "y", 1.0, source="sim")
    wait = of(compare([tmp_path / "a", tmp_path / "b"]), "queue_wait", 0.99)
    assert not wait.relative
    assert wait.change == pytest.approx(0.099)
    assert wait.verdict == "worse"


def test_five_live_pairs_show_a_change_and_its_interval(tmp_path: Path) -> None:
    """Waits doubled but for a run factor of ±2%; the interval is Student's over the log ratios."""
    noise = [1.0, 1.02, 0.98, 1.01, 0.99]
    repeats(tmp_path / "old", "old", [1.0] * 5)
    repeats(tmp_path / "new", "new", [2 * k for k in noise])
    wait = of(compare([tmp_path / "old", tmp_path / "new"]), "queue_wait", 0.99)
    logs = np.log(2 * np.array(noise))
    half = 2.776445 * logs.std(ddof=1) / np.sqrt(5)
    assert wait.change == pytest.approx(np.exp(logs.mean()) - 1)
    assert (wait.low, wait.high) == pytest.approx(
        (np.exp(logs.mean() - half) - 1, np.exp(logs.mean() + half) - 1), rel=1e-6
    )
    assert (wait.verdict, wait.pairs) == ("worse", 5)


def test_equal_servers_are_not_told_apart(tmp_path: Path) -> None:
    repeats(tmp_path / "old", "old", [1.0, 1.02, 0.98, 1.01, 0.99])
    repeats(tmp_path / "new", "new", [1.01, 0.99, 1.0, 0.98, 1.02])
    found = compare([tmp_path / "old", tmp_path / "new"])
    assert {d.verdict for d in found.differences} <= {
        "no difference shown", "inconclusive", "not judged",
    }  # fmt: skip
    assert comparison_exit_code(found) == 0


def test_a_single_live_pair_is_inconclusive_and_has_no_interval(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 50.0)
    run(tmp_path / "b", "y", 1.0)
    found = compare([tmp_path / "a", tmp_path / "b"])
    wait = of(found, "queue_wait", 0.99)
    assert (wait.verdict, wait.low, wait.high) == ("inconclusive", None, None)
    assert {d.verdict for d in found.differences} <= {"inconclusive", "not judged"}
    assert any("once" in text for text in found.cautions)


def test_repeats_made_one_after_the_other_are_cautioned(tmp_path: Path) -> None:
    repeats(tmp_path / "old", "old", [1.0, 1.0])
    for k in range(2):
        run(tmp_path / "new" / str(k), "new", 1.0, created_utc=f"2026-11-30T13:0{k}:00+00:00")
    found = compare([tmp_path / "old", tmp_path / "new"])
    assert any("Interleave" in text for text in found.cautions)


def test_an_invalid_run_takes_every_number_of_its_label_with_it(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 1.0, source="sim")
    run(tmp_path / "b", "y", 1.0, source="sim", state="failed", ended_why="the disk was full")
    found = compare([tmp_path / "a", tmp_path / "b"])
    assert {d.verdict for d in found.differences} == {"invalid"}
    assert all(d.a is d.b is d.change is d.low is d.high is None for d in found.differences)
    assert "the disk was full" in found.differences[0].why
    assert comparison_exit_code(found) == 3


def test_a_stopped_run_speaks_for_a_part_alone(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 1.0)
    run(tmp_path / "b", "y", 1.0, state="stopped", ended_why="Ctrl-C")
    assert [arm.label for arm in compare([tmp_path / "a", tmp_path / "b"]).invalid] == ["y"]


def test_an_estimated_wait_is_not_compared_with_a_measured_one(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 1.0)
    write_run(tmp_path / "b", rows(1.0, 1.0, queue_wait_source="estimated"), target=target("y"))
    found = compare([tmp_path / "a", tmp_path / "b"])
    assert of(found, "queue_wait", 0.99).verdict == "invalid"
    assert of(found, "queue_wait", 0.99).change is None
    assert of(found, "ttft", 0.99).change is not None


def test_a_number_that_only_one_side_knows_is_invalid(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 1.0)
    silent = [r._replace(preemptions=None) for r in rows(1.0, 1.0)]
    write_run(tmp_path / "b", silent, target=target("y"))
    found = of(compare([tmp_path / "a", tmp_path / "b"]), "preemptions", None, "batch")
    assert (found.verdict, found.change, found.why) == ("invalid", None, "not known in y")


def refusing(path: Path, factor: float) -> None:
    """A simulated run that refuses the later half of the interactive requests: those that wait longest."""
    kept = rows(factor, 1.0, "sim")
    for i in range(50, 100):
        kept[i] = failed(f"i{i}", kept[i].scheduled_s, "rejected", source="sim")
    write_run(path, kept, target=target("y"))


def test_who_refuses_more_looks_faster_and_is_cautioned(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 1.0, source="sim")
    refusing(tmp_path / "b", 1.0)
    found = compare([tmp_path / "a", tmp_path / "b"])
    assert of(found, "completed").verdict == "worse"
    assert any("y answered 50.0%" in text for text in found.cautions)


@pytest.mark.parametrize("measure", [("queue_wait", 0.99), ("late_share", None), ("e2e", 0.99)])
def test_who_refuses_more_is_not_called_faster_for_it(
    tmp_path: Path, measure: tuple[str, float | None]
) -> None:
    """Waits of 1 to 50 ms against 1 to 100 ms: lower only because the slower half is missing."""
    run(tmp_path / "all", "x", 1.0, source="sim")
    refusing(tmp_path / "half", 1.0)
    for order in (["all", "half"], ["half", "all"]):
        found = of(compare([tmp_path / name for name in order], late_s=0.075), *measure)
        assert found.verdict == "not judged"
        assert "50.0% of the requests in y and of 100.0% in x" in found.why
        assert found.change  # the number is still told


def test_who_refuses_more_and_is_slower_still_is_called_worse(tmp_path: Path) -> None:
    run(tmp_path / "all", "x", 1.0, source="sim")
    refusing(tmp_path / "half", 3.0)
    found = compare([tmp_path / "all", tmp_path / "half"])
    assert of(found, "queue_wait", 0.99).verdict == "worse"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"trace": {"source": "other.csv", "sha256": "cd" * 32}}, "their traces differ"),
        ({"transforms": {"speedup": 5.0}}, "speedup 10 and 5"),
        ({"seed": 2}, "their seeds differ"),
        ({"trace": {"source": "day.parquet"}}, "sha256 unknown"),
    ],
)
def test_runs_that_were_offered_something_else_are_refused_with_the_reason(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    run(tmp_path / "a", "x", 1.0)
    run(tmp_path / "b", "y", 1.0, **changed)
    with pytest.raises(InputError, match=why):
        compare([tmp_path / "a", tmp_path / "b"])


def test_an_equal_schedule_hash_is_proof_enough(tmp_path: Path) -> None:
    one = run(tmp_path / "a", "x", 1.0, schedule={"sha256": "ee" * 32}).manifest()
    assert why_unlike(one, replace(one, transforms={"speedup": 5.0}, seed=9)) == ""


def test_runs_of_one_policy_and_setup_are_repeats(tmp_path: Path) -> None:
    for name, policy in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")):
        run(tmp_path / name, policy, 1.0)
    found = compare([tmp_path / name for name in "abcd"])
    assert [(arm.label, len(arm.runs)) for arm in found.arms] == [("x", 2), ("y", 2)]


def test_equal_policies_on_unlike_servers_are_not_repeats(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 1.0)
    bigger = {**target("x"), "capacity": {"max_num_seqs": 64}}
    run(tmp_path / "b", "x", 1.0, target=bigger)
    found = compare([tmp_path / "a", tmp_path / "b"])
    assert [arm.label for arm in found.arms] == ["x", "x · slots 64"]


def test_labels_tell_apart_what_the_manifests_do_not(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, "x", 1.0).path for name in "abcd"]
    with pytest.raises(InputError, match="nothing to compare"):
        compare(paths)
    found = compare(paths, labels=["old", "new", "new", "old"])
    assert [(arm.label, [r.path.name for r in arm.runs]) for arm in found.arms] == [
        ("old", ["a", "d"]),
        ("new", ["b", "c"]),
    ]


def test_bad_usage_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "x", 1.0).path, run(tmp_path / "b", "y", 1.0).path
    (tmp_path / "empty").mkdir()
    cases: list[tuple[str, dict[str, Any], list[Path]]] = [
        ("nothing to compare", {}, [a]),
        ("given twice", {"labels": ["l", "m"]}, [a, a]),
        ("1 labels for 2 runs", {"labels": ["l"]}, [a, b]),
        ("metric 'speed' is unknown", {"metrics": ["speed"]}, [a, b]),
        ("metric 'ttft:p42' is unknown", {"metrics": ["ttft:p42"]}, [a, b]),
        ("lane 'night' is in none", {"lanes": ["night"]}, [a, b]),
        ("lane 'night' is in none", {"slos": [units.slo("night:ttft:p99:1s")]}, [a, b]),
    ]
    for message, options, paths in cases:
        with pytest.raises(InputError, match=message) as caught:
            compare(paths, **options)
        assert caught.value.hint
    with pytest.raises(RunError, match="neither a run directory"):
        compare([a, tmp_path / "empty"])
    with pytest.raises(RunError, match="not a run directory"):
        compare([a, tmp_path / "nowhere"])


def test_a_run_of_another_schema_is_refused(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "x", 1.0), run(tmp_path / "b", "y", 1.0)
    text = json.loads(b.manifest_path.read_text())
    b.manifest_path.write_text(json.dumps({**text, "schema": "loadkit.run/v9"}))
    with pytest.raises(RunError, match="run/v9"):
        compare([a.path, b.path])


def test_a_lane_that_is_missing_on_one_side_is_invalid(tmp_path: Path) -> None:
    same: dict[str, Any] = {"schedule": {"sha256": "ee" * 32}}
    run(tmp_path / "a", "x", 1.0, **same)
    only = rows(1.0, 1.0)[:100]
    write_run(tmp_path / "b", only, sends=sends_of(only), target=target("y"), **same)
    found = of(compare([tmp_path / "a", tmp_path / "b"]), "e2e", 0.99, "batch")
    assert (found.verdict, found.why) == ("invalid", "lane batch is missing in y")


def policies(tmp_path: Path) -> list[Path]:
    """p99 waits 198, 99, 49.5 and 148.5 ms; batch gaps 0.5, 0.8, 1.0 and 1.2 s."""
    made = (("fifo", 2.0, 0.5), ("mild", 1.0, 0.8), ("strict", 0.5, 1.0), ("silly", 1.5, 1.2))
    return [run(tmp_path / n, n, factor, gap, "sim").path for n, factor, gap in made]


def test_the_choice_is_the_most_batch_work_among_those_that_meet_the_slos(tmp_path: Path) -> None:
    found = compare(policies(tmp_path), slos=[SLO])
    assert found.meeting == ("mild", "strict", "silly")
    assert found.choice is not None
    assert (found.choice.label, found.choice.cost_against) == ("mild", "fifo")
    assert found.choice.cost_share == pytest.approx(1 - 10.041 / 16.041)
    assert comparison_exit_code(found) == 0


def test_no_choice_where_none_meets_the_slos(tmp_path: Path) -> None:
    found = compare(policies(tmp_path), slos=[units.slo("interactive:queue_wait:p99:1ms")])
    assert found.choice is None
    assert comparison_exit_code(found) == 1


def test_the_front_holds_those_that_no_other_beats_in_both(tmp_path: Path) -> None:
    found = compare(policies(tmp_path)).trade_off
    assert found is not None
    assert {s.label: s.on_front for s in found.standings} == {
        "fifo": True, "mild": True, "strict": True, "silly": False,
    }  # fmt: skip
    assert {s.beaten_by for s in found.standings} == {None, "mild"}


def test_of_two_without_slos_a_worse_second_fails(simulated: Comparison, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    assert comparison_exit_code(compare(paths)) == 1
    assert comparison_exit_code(simulated) == 0  # with --slo, the SLO decides


def test_slots_in_use_come_from_the_servers_gauge_by_lane(tmp_path: Path) -> None:
    made = write_run(tmp_path / "a", rows(1.0, 0.5), gauges(), target=target("x"), ended_s=10.0)
    used = occupancy(load(made))
    assert used is not None
    assert {lane: set(levels) for lane, levels in used.running.items()} == {
        "interactive": {2.0},
        "batch": {3.0},
    }
    assert (used.slots, used.mean) == (10, 5.0)


def test_without_a_gauge_slots_in_use_are_worked_out_from_the_rows(tmp_path: Path) -> None:
    """One batch job begins at 2 s and ends at 6 s: 4 of 8 seconds, one slot."""
    one = rows(1.0, 2.0)[100]._replace(finished_s=6.0, preemptions=0)
    used = occupancy(load(write_run(tmp_path / "a", [one], ended_s=8.0)))
    assert used is not None
    assert used.mean == pytest.approx(0.5)
    assert used.from_rows
    assert used.running["batch"][50] == pytest.approx(1.0)  # at 2.5 s
    assert used.running["batch"][20] == pytest.approx(0.0)


def test_the_json_keeps_the_shape_that_scripts_build_on(simulated: Comparison) -> None:
    told = comparison_json(simulated, "words")
    json.dumps(told, allow_nan=False)
    assert {"runs", "differences", "conclusion"} <= told.keys()
    keys = {"lane", "metric", "quantile", "a", "b", "change", "low", "high", "verdict"}
    assert all(keys <= difference.keys() for difference in told["differences"])


def test_named_metrics_alone_are_compared(tmp_path: Path) -> None:
    paths = [run(tmp_path / n, n, 1.0).path for n in "ab"]
    found = compare(paths, metrics=["ttft:p99"], lanes=["batch"])
    assert [(d.lane, d.measure.key) for d in found.differences] == [("batch", ("ttft", 0.99))]


def test_opening_a_folder_of_repeats_opens_each(tmp_path: Path) -> None:
    folder = repeats(tmp_path / "old", "old", [1.0, 1.0])
    assert sorted(p.name for p in folder.iterdir()) == ["0", "1"]
    assert RunDir.open(folder / "0").manifest().target["policy"] == "old"
