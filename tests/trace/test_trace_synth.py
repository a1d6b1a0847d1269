"""The generator: the rate asked for, the day's curve, the burstiness it was fitted to, and streams."""

import math
from dataclasses import replace
from statistics import mean, median
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from loadkit.errors import InputError
from loadkit.trace import TRACE_SCHEMA, TraceTable, stats
from loadkit.trace.doctor import describe
from loadkit.trace.synth import PRESETS, Spec, synthesize

HOUR = Spec("diurnal", 3600.0, 5.5, seed=0, batch_share=0.0, start_hour=16.5)
DEMO = Spec("diurnal", 60.0, 3.0, seed=1, day_s=60.0)

# Hour-of-day session starts over BurstGPT_1, mean 1, as published by a third party.
BURSTGPT1_HOURS = """.999 .973 .627 .573 .413 .385 .217 .169 .175 .343 .788 1.265
                     1.908 1.589 1.849 1.344 1.421 1.349 1.231 1.647 1.379 1.172 1.136 1.046"""

GOLDEN_ROWS = 255
GOLDEN = [
    ("job-000-15", 19.403449, 699, 5),
    ("job-000-16", 19.403449, 704, 5),
    ("job-000-17", 19.403449, 697, 5),
]


def lane(trace: TraceTable, name: str) -> TraceTable:
    return replace(trace, table=trace.table.filter(pc.equal(trace.table["lane"], name)))


def column(trace: TraceTable, name: str) -> list[Any]:
    values: list[Any] = trace.table[name].to_pylist()
    return values


def test_the_same_seed_makes_the_same_rows_and_another_does_not() -> None:
    first = synthesize(DEMO)
    assert first.table.equals(synthesize(DEMO).table)
    assert first.table.schema.equals(TRACE_SCHEMA)
    other = synthesize(replace(DEMO, seed=2))
    assert not first.table["arrival_s"].equals(other.table["arrival_s"])
    assert first.meta["generator"]["identity"] != other.meta["generator"]["identity"]


def test_rows_are_the_same_on_every_machine() -> None:
    """Golden rows: a change here is a new GENERATOR_VERSION."""
    told = synthesize(DEMO).table.select(
        ["request_id", "arrival_s", "prompt_tokens", "output_tokens"]
    )
    assert told.num_rows == GOLDEN_ROWS
    assert [tuple(row.values()) for row in told.slice(100, 3).to_pylist()] == GOLDEN


@pytest.mark.parametrize("duration_s", [600.0, 3600.0])
def test_the_mean_rate_is_the_one_asked_for(duration_s: float) -> None:
    """Rate integral: the mean count over seeds is within 3 % of rate x duration."""
    spec = Spec("diurnal", duration_s, 4.0, 0, batch_share=0.0, tenants=2)
    counts = [synthesize(replace(spec, seed=seed)).rows for seed in range(20)]
    assert mean(counts) == pytest.approx(4.0 * duration_s, rel=0.03)


def test_burstiness_is_that_of_the_recorded_chat_it_was_fitted_to() -> None:
    """IoD 1.16 / 2.7 / 9.0 at 1 / 10 / 60 s and CV about 1 at 5.5 rps, within 30 %, over seeds."""
    traces = [synthesize(replace(HOUR, seed=seed, tenants=2)) for seed in range(20)]
    times = [trace.table["arrival_s"].to_numpy() for trace in traces]
    for bin_s, expected in ((1.0, 1.16), (10.0, 2.7), (60.0, 9.0)):
        told = [stats.dispersion(arrival_s, bin_s) or 0.0 for arrival_s in times]
        assert median(told) == pytest.approx(expected, rel=0.3), bin_s
    cvs = [stats.cv_of_gaps(arrival_s) or 0.0 for arrival_s in times]
    assert median(cvs) == pytest.approx(1.0, rel=0.1)


def test_the_hours_of_the_day_are_recovered() -> None:
    """Three Mondays from midnight; hourly counts follow the published curve within 12 %."""
    expected = np.array([float(word) for word in BURSTGPT1_HOURS.split()])
    # Averaged over an hour, a curve that is linear between hour centres is smoothed a little.
    smoothed = 0.75 * expected + 0.125 * (np.roll(expected, 1) + np.roll(expected, -1))
    counts = np.zeros(24)
    for seed in range(3):
        trace = synthesize(Spec("diurnal", 86400.0, 1.0, seed, batch_share=0.0, start_hour=0.0))
        counts += np.histogram(trace.table["arrival_s"].to_numpy(), 24, (0, 86400))[0]
    assert counts / counts.mean() == pytest.approx(smoothed, rel=0.12, abs=0.03)


def test_a_compressed_day_keeps_curve_and_tokens() -> None:
    """A minute per day, at a rate that shows the curve: peak hours against the quiet ones."""
    day = lane(synthesize(replace(DEMO, rate_rps=200.0, start_hour=0.0)), "interactive")
    counts = np.histogram(day.table["arrival_s"].to_numpy(), 24, (0, 60))[0]
    assert counts[12:15].mean() > 4 * counts[6:9].mean()
    real = lane(synthesize(replace(HOUR, start_hour=0.0)), "interactive")
    for name in ("prompt_tokens", "output_tokens"):
        assert np.median(column(day, name)) == pytest.approx(np.median(column(real, name)), rel=0.1)


def test_weekends_are_quieter() -> None:
    trace = synthesize(Spec("diurnal", 7 * 86400.0, 0.2, 3, batch_share=0.0, start_hour=0.0))
    days = np.histogram(trace.table["arrival_s"].to_numpy(), 7, (0, 7 * 86400))[0]
    assert days[5:].mean() / days[:5].mean() == pytest.approx(0.57, rel=0.15)


def test_adding_a_tenant_does_not_change_the_others() -> None:
    """At equal rates per tenant the rows of the first nine are the same with a tenth beside them."""

    def weights(tenants: int) -> float:
        return sum(math.pow(k, -1.1) for k in range(1, tenants + 1))

    few = synthesize(replace(HOUR, tenants=9))
    many = synthesize(replace(HOUR, tenants=10, rate_rps=HOUR.rate_rps * weights(10) / weights(9)))
    others = many.table.filter(pc.not_equal(many.table["tenant"], "tenant-09"))
    assert others.num_rows < many.rows
    for name in ("request_id", "prompt_tokens", "output_tokens", "turn", "prefix_ids"):
        assert others[name].to_pylist() == few.table[name].to_pylist()
    assert others["arrival_s"].to_numpy() == pytest.approx(
        few.table["arrival_s"].to_numpy(), abs=1e-4
    )


def test_turns_follow_their_parents_and_grow_the_context() -> None:
    rows = synthesize(HOUR).table.to_pylist()
    by_id = {row["request_id"]: row for row in rows}
    follow_ups = [row for row in rows if row["turn"]]
    assert len(follow_ups) > 0.3 * len(rows)
    assert all(row["parent_id"] is None for row in rows if row["turn"] == 0)
    for row in follow_ups:
        parent = by_id[row["parent_id"]]
        assert (parent["session"], parent["turn"]) == (row["session"], row["turn"] - 1)
        assert parent["arrival_s"] <= row["arrival_s"]
        assert 0 < row["think_s"] <= row["arrival_s"] - parent["arrival_s"] + 0.01
        assert row["prompt_tokens"] > parent["prompt_tokens"] + parent["output_tokens"]
        shared = len(parent["prefix_ids"])
        assert row["prefix_ids"][:shared] == parent["prefix_ids"]


def test_sessions_have_the_turns_they_were_fitted_to() -> None:
    """RAGPulse: 1.78 turns on average, 59 % of sessions with one. Edges of a day hardly count."""
    told = describe(synthesize(Spec("diurnal", 86400.0, 1.0, 5, batch_share=0.0))).sessions
    assert told
    assert told.turns_mean == pytest.approx(1.78, rel=0.04)
    assert told.multi_turn_share == pytest.approx(0.41, abs=0.02)
    assert told.turns_max <= 25


def test_prefixes_name_whole_blocks_inside_the_prompt_and_are_shared_inside_a_tenant() -> None:
    trace = synthesize(DEMO)
    for row in trace.table.to_pylist():
        assert len(row["prefix_ids"]) == row["prompt_tokens"] // row["prefix_block"]
    share = describe(lane(synthesize(HOUR), "interactive")).prefix_hit_share
    # Recorded traces lie between 0.37 and 0.64.
    assert share is not None
    assert 0.37 < share < 0.64


def test_batch_jobs_arrive_at_once_in_the_evening_and_are_due_a_day_later() -> None:
    trace = lane(synthesize(Spec("diurnal", 86400.0, 0.5, 2, start_hour=0.0)), "batch")
    rows = trace.table.to_pylist()
    jobs = {row["batch_id"]: row for row in rows}
    assert len(jobs) >= 4
    for row in rows:
        assert row["arrival_s"] == jobs[row["batch_id"]]["arrival_s"]
        assert row["deadline_s"] - row["arrival_s"] == pytest.approx(86400.0, abs=1e-3)
        hour = row["arrival_s"] / 3600
        assert hour >= 18 or hour < 2
        assert row["lane_from"] == "assumed"
        assert row["session"] is None


def test_the_batch_share_is_kept_and_deadlines_scale_with_the_trace() -> None:
    trace = synthesize(replace(DEMO, rate_rps=50.0, batch_share=0.4))
    batch = lane(trace, "batch")
    assert batch.rows / trace.rows == pytest.approx(0.4, abs=0.03)
    waits = np.array(column(batch, "deadline_s")) - np.array(column(batch, "arrival_s"))
    assert waits == pytest.approx(60.0, abs=1e-3)
    short = lane(synthesize(Spec("diurnal", 600.0, 2.0, 1)), "batch")
    waits = np.array(column(short, "deadline_s")) - np.array(column(short, "arrival_s"))
    assert waits == pytest.approx(600.0, abs=1e-3)


def test_a_trace_without_batch_has_one_lane() -> None:
    assert set(column(synthesize(HOUR), "lane")) == {"interactive"}


def test_every_preset_makes_a_trace() -> None:
    for name in PRESETS:
        assert synthesize(Spec(name, 60.0, 5.0, 1)).rows > 100


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": "lunar"},
        {"duration_s": 0.0},
        {"batch_share": 1.0},
        {"tenants": 0},
        {"start_hour": 24.0},
        {"day_s": 0.0},
        {"seed": -1},
        {"rate_rps": 1e6, "duration_s": 86400.0},
        {"rate_rps": 1e-9, "batch_share": 0.0},
    ],
)
def test_impossible_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError) as caught:
        synthesize(replace(DEMO, **wrong))  # type: ignore[arg-type]
    assert caught.value.hint
