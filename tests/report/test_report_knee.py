"""The report of a search: what it says in each case, and that it is safe to open."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knee_steps import SLO, step
from loadkit.analysis.knee.as_json import knee_json
from loadkit.analysis.knee.findings import find
from loadkit.analysis.knee.result import KneeResult
from loadkit.analysis.knee.steps import Step, StepPlan, Use
from loadkit.report.knee import headline, terminal_knee, write_knee
from loadkit.report.knee.words import answer

HOSTILE = "<script>alert(1)</script>"
LOW = [step(4.0, latency_s=np.linspace(0.08, 0.12, 900)) for _ in range(4)]
AROUND = [
    step(rate, missed, use=Use(slots=0.81, kv=0.3))
    for rate, missed in ((18.0, 2), (19.0, 4), (20.0, 12), (21.0, 50))
]
OVER = [step(30.0, 900, completed_rps=rate, overloaded=True) for rate in (24.0, 25.0, 26.0)]


def result(folder: Path, steps: list[Step], **more: Any) -> KneeResult:
    asked = {
        "trace": "day.parquet", "trace_sha256": "ab" * 32, "target": "http://127.0.0.1:1",
        "settings": {}, "scaled": [], "lanes": [], "seed": 1,
        "search": {"warm_s": 20.0, "measure_s": 60.0, "soak_s": 0.0, "rates_rps": []},
    }  # fmt: skip
    slo = more.pop("slo", SLO)
    searched = [each for each in steps if each.plan.role != "soak"]
    values: dict[str, Any] = {
        "folder": folder,
        "asked": {**asked, **more.pop("asked", {})},
        "slo": slo,
        "steps": tuple(steps),
        "runs": tuple(f"steps/{n}" for n in range(len(steps))),
        "manifests": (),
        "findings": find(searched, slo),
        "ended_why": "all steps are done",
    }
    return KneeResult(**(values | more))


def soak(rate_rps: float, missed: int) -> Step:
    made = step(rate_rps, missed, requests=5000)
    return replace(made, plan=StepPlan("soak", rate_rps, 60.0, 600.0))


def told(found: KneeResult) -> str:
    return " ".join(answer(found)).replace("\N{NO-BREAK SPACE}", " ")


def test_the_answer_tells_rate_interval_utilisation_and_what_is_safe(tmp_path: Path) -> None:
    found = result(tmp_path, [*LOW, *AROUND, *OVER])
    capacity = found.findings.capacity
    assert capacity.rps and capacity.low_rps and capacity.high_rps and capacity.utilisation
    text = told(found)
    assert f"takes {capacity.rps:.1f} requests/s (95 %: {capacity.low_rps:.1f} to" in text
    assert f"That is {100 * capacity.rps / 25:.0f} % (" in text
    assert "most that it completes, 25.0 requests/s" in text
    assert f"Plan with {capacity.low_rps:.1f} requests/s" in text
    assert "Bottleneck: slots. Close to that load there are in use, on average: slots 81 %" in text
    assert "99 % of interactive requests have a TTFT of at most 1.00 s" in text
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("steps", "more", "word", "code"),
    [
        ([*AROUND, *OVER], {}, "FOUND", 0),
        ([*AROUND, soak(18.0, 0)], {}, "CONFIRMED", 0),
        ([*AROUND, soak(18.0, 200)], {}, "NOT CONFIRMED", 1),
        (LOW, {}, "NOT REACHED", 1),
        (OVER, {}, "OVER AT THE LOWEST LOAD", 1),
        ([], {}, "NOTHING MEASURED", 1),
        (AROUND, {"ended_why": None}, "UNFINISHED", 1),
        (
            AROUND,
            {"ended_why": "two steps in a row were invalid: most often the client"},
            "INVALID",
            3,
        ),
    ],
)
def test_every_ending_has_its_word_and_its_exit_code(
    tmp_path: Path, steps: list[Step], more: dict[str, Any], word: str, code: int
) -> None:
    found = result(tmp_path, steps, **more)
    assert headline(found).word == word
    assert found.exit_code == code
    paths = write_knee(found)
    assert word in paths.html.read_text()
    assert paths.markdown.read_text().startswith(f"## {word}")
    assert word in terminal_knee(found, paths.html).plain
    assert json.loads(paths.json.read_text()) == json.loads(json.dumps(knee_json(found)))


def test_an_invalid_soak_confirms_and_refutes_nothing(tmp_path: Path) -> None:
    search = {"warm_s": 20.0, "measure_s": 60.0, "soak_s": 600.0, "rates_rps": []}
    late = replace(soak(18.0, 5000), valid=False)
    found = result(tmp_path, [*AROUND, late], asked={"search": search})
    assert headline(found).word == "FOUND"
    assert found.exit_code == 1
    assert any("was not made, or was invalid" in text for text in found.cautions)


def test_a_refuted_capacity_is_not_planned_with(tmp_path: Path) -> None:
    found = result(tmp_path, [*AROUND, soak(18.0, 200)])
    low_rps = found.findings.capacity.low_rps
    assert f"Plan with less than {low_rps:.1f} requests/s" in told(found)
    unfinished = result(tmp_path, AROUND, ended_why=None)
    assert "Plan with" not in told(unfinished)


def test_a_search_alone_that_did_not_end_counts(tmp_path: Path) -> None:
    alone = result(tmp_path, AROUND, ended_why=None)
    found = result(tmp_path, AROUND, alone=alone)
    assert found.exit_code == 1
    assert any("not finished" in text for text in found.cautions)


def test_what_was_not_reached_names_no_rate_beyond_what_was_tried(tmp_path: Path) -> None:
    text = told(result(tmp_path, LOW))
    rates = [float(rate) for rate in re.findall(r"([\d.]+) requests/s", text)]
    assert rates
    assert max(rates) <= 4.0


def test_names_from_elsewhere_cannot_do_anything_in_the_page(tmp_path: Path) -> None:
    asked = {"trace": HOSTILE, "target": HOSTILE, "lanes": [HOSTILE]}
    slo = replace(SLO, lane=HOSTILE)
    found = result(tmp_path, [*LOW, *AROUND, *OVER], asked=asked, slo=slo)
    paths = write_knee(found)
    page = paths.html.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(?<!\\)<script", paths.markdown.read_text())


def test_the_page_loads_nothing_and_is_small(tmp_path: Path) -> None:
    page = write_knee(result(tmp_path, [*LOW, *AROUND, *OVER])).html.read_text()
    assert len(page) < 300_000
    links = re.findall(r'(?:src|href)="([^"#][^"]*)"|url\(([^#)][^)]*)\)', page)
    assert links == []


def test_two_searches_stand_side_by_side(tmp_path: Path) -> None:
    alone = result(tmp_path, [*LOW, *AROUND, *OVER])
    slower = [replace(s, plan=replace(s.plan, rate_rps=s.plan.rate_rps / 2)) for s in alone.steps]
    found = result(tmp_path, slower, alone=alone, asked={"scaled": ["interactive"]})
    assert found.sharing is not None
    assert found.sharing.cost == pytest.approx(0.5, abs=1e-9)
    assert "company costs 50 % of its capacity" in told(found)
    assert "What sharing costs" in write_knee(found).html.read_text()


@pytest.mark.parametrize(
    ("steps", "more", "says"),
    [
        ([*LOW, *AROUND, step(20.0, valid=False)], {}, "1 step is invalid"),
        (AROUND[:2] + AROUND[3:], {}, "only 3 steps lie within 10 %"),
        ([step(4.0, requests=50), *AROUND], {}, "as few as 50 requests"),
        (AROUND, {"ended_why": "the budget of 5 min is spent"}, "budget of 5 min"),
        (AROUND, {"asked": {"scaled": ["interactive"]}}, "only interactive was scaled"),
        (AROUND, {}, "queue wait is not known"),
    ],
)
def test_a_reader_is_told_what_weakens_the_answer(
    tmp_path: Path, steps: list[Step], more: dict[str, Any], says: str
) -> None:
    assert any(says in text for text in result(tmp_path, steps, **more).cautions)
