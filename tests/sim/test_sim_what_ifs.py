"""What would change: a dearer eviction, shorter batch jobs, a floor, aging; on a published trace."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loadkit.analysis.comparison import Comparison, compare
from loadkit.cli import app

LANES = Path("../shared/data/textbook/lanes_seed3.csv.gz")
pytestmark = pytest.mark.skipif(not LANES.exists(), reason="no ../shared/data/textbook")
POOL = ("--slots", "64", "--tick", "1s", "--horizon", "6h")


def sim(*flags: object) -> dict[str, Any]:
    """Policy → its numbers."""
    result = CliRunner().invoke(app, ["sim", str(LANES), *POOL, *map(str, flags), "--json"])
    assert result.exit_code == 0, result.output
    return {of["policy"]: of for of in json.loads(result.stdout)["policies"]}


def told(of: dict[str, Any]) -> tuple[float, int, int]:
    """Interactive p99 wait in seconds, batch jobs done, evictions."""
    lanes = of["lanes"]
    return (
        lanes["interactive"]["wait_s"]["p99"],
        lanes["batch"]["completed"],
        of["preemptions"],
    )


def test_a_floor_and_aging_move_work_from_one_lane_to_the_other() -> None:
    found = sim("--policy", "priority,floor=8", "--policy", "priority,aging=1h")
    assert told(found["priority,floor=8"]) == (24.0, 6501, 0)
    assert told(found["priority,aging=1h"]) == (16028.0, 10000, 0)


def test_an_eviction_of_a_minute_costs_eviction_alone_nearly_all_batch_work() -> None:
    found = sim("--preempt-cost", "60s", "--policy", "preempt")
    assert told(found["preempt"]) == (0.0, 349, 21861)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("what-if")
    cases = {
        "base": ("--preempt-cost", "15s"),
        "dear": ("--preempt-cost", "60s"),
        "half": ("--preempt-cost", "15s", "--batch-service", "0.5x"),
    }
    for name, flags in cases.items():
        sim(*flags, "--policy", "reserve:8+preempt", "-o", folder / name)
    return compare([folder / name for name in cases])


def test_the_comparison_shows_what_changes_beside_what_was_set(compared: Comparison) -> None:
    found = {
        arm.label: (
            arm.mean(("interactive", ("queue_wait", 0.99))),
            arm.mean(("batch", ("completed", None))),
            arm.mean((None, ("preemptions", None))),
        )
        for arm in compared.arms
    }
    assert found == {
        "reserve:8+preempt": (0.0, 5139.0, 3951.0),
        "reserve:8+preempt · eviction cost 60 s": (0.0, 3370.0, 4617.0),
        "reserve:8+preempt · batch service 0.5x": (0.0, 10000.0, 2884.0),
    }
    assert compared.settings.differing == ("preempt_cost_s", "batch_service")
    assert compared.settings.shared["slots"] == 64


def test_the_slots_in_use_are_those_of_the_simulator(compared: Comparison) -> None:
    """92.48 % is the published figure of the first."""
    use = compared.baseline.mean((None, ("slot_use_share", None)))
    assert use is not None
    assert round(100 * use, 2) == pytest.approx(92.48)


def test_a_dearer_eviction_is_judged_and_shorter_jobs_are_not(compared: Comparison) -> None:
    done = {
        d.arm.partition(" · ")[2]: d.verdict
        for d in compared.differences
        if (d.lane, d.measure.metric) == ("batch", "completed")
    }
    assert done == {"eviction cost 60 s": "worse", "batch service 0.5x": "not judged"}
