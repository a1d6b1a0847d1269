"""Runs that share a policy and differ in what was set, or in the work that they were given."""

from pathlib import Path
from typing import Any

import pytest

from comparison_runs import JOBS, run, target
from loadkit import units
from loadkit.analysis.comparison import Comparison, compare, comparison_json
from loadkit.analysis.comparison.settings import text
from loadkit.errors import InputError

HALF = {"speedup": 10.0, "batch_service": 0.5}
WHOLE = {"speedup": 10.0, "batch_service": 1.0}


def pool(cost_s: float, slots: int = 10) -> dict[str, Any]:
    """A simulated pool of slots under one policy."""
    slot = {"slots": slots, "tick_s": None, "preempt_cost_s": cost_s}
    return {**target("preempt"), "slots": slot, "capacity": {"max_num_seqs": slots}}


def labels(found: Comparison) -> list[str]:
    return [arm.label for arm in found.arms]


def test_equal_policies_are_named_by_the_one_thing_that_was_set_otherwise(tmp_path: Path) -> None:
    a = run(tmp_path / "a", "", 1.0, source="sim", target=pool(15.0)).path
    b = run(tmp_path / "b", "", 1.0, source="sim", target=pool(60.0)).path
    other = run(tmp_path / "c", "fifo", 1.0, source="sim").path

    found = compare([a, b, other])

    assert labels(found) == ["preempt", "preempt · eviction cost 60 s", "fifo"]


def test_what_differs_and_what_is_shared_are_told_apart(tmp_path: Path) -> None:
    a = run(tmp_path / "a", "", 1.0, source="sim", target=pool(15.0, slots=10)).path
    b = run(tmp_path / "b", "", 1.0, source="sim", target=pool(60.0, slots=12)).path

    told = comparison_json(compare([a, b], labels=["old", "new"]), "")

    assert set(told["settings_differing"]) == {"preempt_cost_s", "slots"}
    assert [arm["settings"] for arm in told["runs"]] == [
        {"preempt_cost_s": 15.0, "slots": 10},
        {"preempt_cost_s": 60.0, "slots": 12},
    ]
    assert told["settings_shared"] == {"engine": "loadkit", "policy": "preempt"}


def test_labels_of_ones_own_do_not_hide_the_policies(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, name, 1.0).path for name in ("fifo", "sjf")]

    assert compare(paths, labels=["old", "new"]).settings.differing == ("policy",)
    assert compare(paths).settings.differing == ()


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("preempt_cost_s", 60.0, "60 s"),
        ("horizon_s", 21600.0, "6 h"),
        ("horizon_s", 600.0, "10 min"),
        ("tick_s", None, "none"),
        ("tick_s", 0.1, "100 ms"),
        ("preempt_cost_s", 0.0, "0 s"),
        ("batch_service", 0.5, "0.5x"),
        ("kv_blocks", 28000, "28,000"),
        ("prefix_cache", False, "off"),
        ("version", "x" * 99, "x" * 40),
    ],
)
def test_a_setting_is_written_with_its_unit(key: str, value: object, told: str) -> None:
    assert text(key, value) == told


@pytest.fixture
def halved(tmp_path: Path) -> Comparison:
    """Batch jobs half as long, which then end sooner; interactive work is the same, waits half as long."""
    run(tmp_path / "a", "x", 2.0, 1.0, "sim", transforms=WHOLE)
    run(tmp_path / "b", "x", 1.0, 0.5, "sim", transforms=HALF)
    return compare([tmp_path / "a", tmp_path / "b"])


def test_scaled_work_is_compared_and_the_report_says_so_first(halved: Comparison) -> None:
    assert labels(halved) == ["x", "x · batch service 0.5x"]
    assert halved.on_other_work == ("x · batch service 0.5x",)
    assert halved.cautions[0].startswith(
        "OTHER WORK in x · batch service 0.5x than in x: batch jobs are half as long."
    )


def test_numbers_of_the_scaled_lane_are_told_and_never_judged(halved: Comparison) -> None:
    batch = {d.measure.key: d for d in halved.differences if d.lane == "batch"}
    done = batch["completed_per_h", None]
    assert (done.a, done.b) == pytest.approx((JOBS / 20.041 * 3600, JOBS / 10.041 * 3600))
    assert {d.verdict for d in batch.values()} == {"not judged"}
    assert {d.verdict for d in halved.differences if d.lane is None} == {"not judged"}
    assert "other work: batch jobs are half as long" in done.why


def test_no_request_of_the_scaled_lane_is_paired_with_itself(halved: Comparison) -> None:
    paired = {d.lane for d in halved.differences if d.measure.of is None and d.lane is not None}
    assert paired == {"interactive"}


def test_the_lane_whose_work_is_the_same_is_judged_as_ever(halved: Comparison) -> None:
    (wait,) = (
        d
        for d in halved.differences
        if (d.lane, d.measure.key) == ("interactive", ("queue_wait", 0.99))
    )
    assert (wait.a, wait.b) == pytest.approx((0.198, 0.099))
    assert wait.verdict == "better"


def test_an_arm_on_other_work_is_neither_on_the_front_nor_the_choice(tmp_path: Path) -> None:
    """The half of the work is done at twice the rate: that makes no policy of it."""
    run(tmp_path / "a", "x", 1.0, 1.0, "sim", transforms=WHOLE)
    run(tmp_path / "b", "y", 0.5, 1.2, "sim", transforms=WHOLE)
    run(tmp_path / "c", "x", 0.5, 0.5, "sim", transforms=HALF)
    slo = units.slo("interactive:queue_wait:p99:1s")

    found = compare([tmp_path / name for name in "abc"], slos=[slo])

    assert found.trade_off is not None
    assert [(s.on_front, s.beaten_by) for s in found.trade_off.standings] == [
        (True, None), (True, None), (False, None),
    ]  # fmt: skip
    assert found.choice is not None
    assert (found.choice.label, found.choice.cost_against) == (
        "x", "x",
    )  # fmt: skip


def test_where_only_other_work_meets_the_slos_no_cost_is_told(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 9.0, 1.0, "sim", transforms=WHOLE)
    run(tmp_path / "b", "x", 0.5, 0.5, "sim", transforms=HALF)
    slo = units.slo("interactive:queue_wait:p99:100ms")
    choice = compare([tmp_path / "a", tmp_path / "b"], slos=[slo]).choice
    assert choice is not None
    assert (choice.label, choice.cost_share) == ("x · batch service 0.5x", None)


def test_runs_up_to_unlike_horizons_carry_no_verdict(tmp_path: Path) -> None:
    run(tmp_path / "a", "x", 1.0, source="sim", limits={"horizon_s": 60.0})
    run(tmp_path / "b", "y", 2.0, source="sim", limits={"horizon_s": 120.0})
    found = compare([tmp_path / "a", tmp_path / "b"])
    assert {d.verdict for d in found.differences} == {"not judged"}
    assert "simulated up to another instant (horizon 120 s against 60 s)" in found.cautions[0]


def test_equal_instants_of_other_work_are_another_trace(tmp_path: Path) -> None:
    """At slot level the schedule holds no service times, so its hash alone proves too little."""
    same = {"sha256": "ee" * 32}
    run(tmp_path / "a", "x", 1.0, source="sim", schedule={**same, "work_sha256": "11" * 32})
    run(tmp_path / "b", "y", 1.0, source="sim", schedule={**same, "work_sha256": "22" * 32})
    with pytest.raises(InputError, match=r"their traces differ .* other work at the same instants"):
        compare([tmp_path / "a", tmp_path / "b"])


def test_a_run_on_other_work_is_no_repeat(tmp_path: Path) -> None:
    for name, transforms in (("a", WHOLE), ("b", HALF), ("c", WHOLE)):
        run(tmp_path / name, "x", 1.0, source="sim", transforms=transforms)
    with pytest.raises(InputError, match="b is no repeat of 'one': batch jobs are half as long"):
        compare([tmp_path / name for name in "abc"], labels=["one", "one", "two"])


def test_repeats_that_were_set_unlike_are_cautioned(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, name, 1.0).path for name in ("fifo", "sjf", "edf")]
    found = compare(paths, labels=["one", "one", "two"])
    assert "The runs of one are no repeats: they differ in policy." in found.cautions
