"""Trace → Schedule: gaps kept, sessions whole, shards a partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit import schedule
from loadkit.errors import InputError
from loadkit.model import Trace, TraceInfo, TraceRequest
from loadkit.schedule import Transforms, build, shard

INFO = TraceInfo("test", "test", "0" * 64, 0)


def trace_of(*rows: TraceRequest) -> Trace:
    return Trace(tuple(rows), INFO)


def row(name: str, arrival_s: float, **more: object) -> TraceRequest:
    lengths = {"prompt_tokens": 10, "output_tokens": 5}
    return TraceRequest(name, arrival_s, **{**lengths, **more})  # type: ignore[arg-type]


def poisson_like(count: int) -> Trace:
    return trace_of(*(row(f"r{i}", i * 0.37 + (i % 7) * 0.01) for i in range(count)))


def test_recorded_instants_and_lengths_pass_through_unchanged() -> None:
    planned = build(trace_of(row("a", 0.0), row("b", 0.1234567, max_tokens=9)), Transforms())

    assert [(s.request_id, s.scheduled_s) for s in planned.sends] == [("a", 0.0), ("b", 0.1234567)]
    assert [(s.prompt_tokens, s.output_tokens) for s in planned.sends] == [(10, 5), (10, 5)]


def test_speedup_shrinks_arrivals_think_times_and_deadlines_alike() -> None:
    first = row("a", 10.0, session="s", deadline_s=70.0)
    second = row("b", 40.0, session="s", think_s=8.0)

    planned = build(trace_of(first, second), Transforms(speedup=2.0))

    assert [s.scheduled_s for s in planned.sends] == [5.0, 20.0]
    assert planned.sends[0].deadline_s == 35.0
    assert planned.sends[1].think_s == 4.0
    assert (planned.duration_s, planned.recorded_duration_s) == (20.0, 40.0)


def test_a_window_starts_at_zero_and_its_end_is_open() -> None:
    rows = [row(str(t), float(t)) for t in range(10)]

    planned = build(trace_of(*rows), Transforms(window_s=(3.0, 6.0)))

    assert [(s.request_id, s.scheduled_s) for s in planned.sends] == [("3", 0), ("4", 1), ("5", 2)]


def test_later_turns_wait_for_the_turn_before_them() -> None:
    rows = [row("a", 0.0, session="s"), row("x", 1.0), row("b", 2.0, session="s")]

    planned = build(trace_of(*rows, row("c", 3.0, session="s")), Transforms())

    assert {s.request_id: s.parent_id for s in planned.sends} == {
        "a": None,
        "x": None,
        "b": "a",
        "c": "b",
    }


def test_a_turn_whose_parent_lies_before_the_window_is_sent_as_a_first_turn() -> None:
    rows = [row("a", 0.0, session="s"), row("b", 5.0, session="s", parent_id="a", think_s=3.0)]

    planned = build(trace_of(*rows), Transforms(window_s=(1.0, 9.0)))

    assert [(s.request_id, s.parent_id, s.think_s) for s in planned.sends] == [("b", None, None)]
    assert planned.notes == {"orphan turns sent as first turns": 1}


def test_rows_without_tokens_are_not_sent_and_counted_by_reason() -> None:
    failed = row("failed", 1.0, output_tokens=0)
    unknown = row("unknown", 2.0, prompt_tokens=None)

    planned = build(trace_of(row("a", 0.0), failed, unknown), Transforms())

    assert [s.request_id for s in planned.sends] == ["a"]
    assert sorted(planned.dropped.values()) == [1, 1]


def test_a_failed_row_between_two_turns_does_not_break_the_session() -> None:
    rows = [row("a", 0.0, session="s"), row("b", 1.0, session="s", output_tokens=0)]

    planned = build(trace_of(*rows, row("c", 2.0, session="s")), Transforms())

    assert [(s.request_id, s.parent_id) for s in planned.sends] == [("a", None), ("c", "a")]


@given(st.integers(1, 2**31), st.sampled_from([0.25, 0.5, 0.75]))
def test_thinning_keeps_whole_sessions_and_about_the_asked_share(seed: int, share: float) -> None:
    rows = [row(f"{s}-{t}", s + t * 0.1, session=f"s{s}") for s in range(400) for t in range(3)]
    rows.sort(key=lambda r: r.arrival_s)

    planned = build(trace_of(*rows), Transforms(scale=share, seed=seed))

    turns: dict[str | None, int] = {}
    for send in planned.sends:
        turns[send.session] = turns.get(send.session, 0) + 1
    assert set(turns.values()) == {3}
    # 400 Bernoulli draws: six standard deviations
    assert abs(len(turns) - 400 * share) < 6 * (400 * share * (1 - share)) ** 0.5


def test_a_smaller_share_is_a_subset_of_a_larger_one() -> None:
    ids = [
        {s.request_id for s in build(poisson_like(500), Transforms(scale=share)).sends}
        for share in (0.2, 0.6)
    ]

    assert ids[0] < ids[1]


def test_superposing_doubles_the_load_with_ids_sessions_and_prefixes_of_its_own() -> None:
    rows = [
        row(f"r{i}", float(i), session=f"s{i}", prefix_ids=(1,), prefix_block=4) for i in range(50)
    ]

    planned = build(trace_of(*rows), Transforms(scale=2.0))

    assert len(planned.sends) == len({s.request_id for s in planned.sends}) == 100
    assert len({s.session for s in planned.sends}) == 100
    assert len({s.prefix_ns for s in planned.sends}) == 2
    assert all(0 <= s.scheduled_s <= 49.0 for s in planned.sends)


def test_a_fractional_scale_above_one_adds_a_thinned_copy() -> None:
    planned = build(poisson_like(1000), Transforms(scale=1.5))

    assert 1400 < len(planned.sends) < 1600


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    def identity(seed: int) -> str:
        return build(poisson_like(200), Transforms(scale=0.5, seed=seed)).sha256()

    assert identity(1) == identity(1) != identity(2)


@given(st.integers(1, 7), st.integers(1, 60))
def test_shards_are_a_partition_and_keep_conversations_together(count: int, sessions: int) -> None:
    rows = [
        row(f"{s}-{t}", s + t * 0.1, session=f"s{s}") for s in range(sessions) for t in range(3)
    ]
    planned = build(trace_of(*sorted(rows, key=lambda r: r.arrival_s)), Transforms())

    shards = shard(planned.sends, count)

    assert sorted(s.request_id for part in shards for s in part) == sorted(
        r.request_id for r in rows
    )
    homes = [{s.session for s in part} for part in shards]
    assert sum(len(home) for home in homes) == sessions
    assert max(map(len, homes)) - min(map(len, homes)) <= 1


def test_a_chain_by_parent_id_alone_stays_on_one_worker() -> None:
    rows = [
        row("a", 0.0),
        row("b", 1.0),
        row("c", 2.0, parent_id="a"),
        row("d", 3.0, parent_id="c"),
    ]
    planned = build(trace_of(*rows), Transforms())

    homes = [{s.request_id for s in part} for part in shard(planned.sends, 2)]

    assert homes == [{"a", "c", "d"}, {"b"}]


def test_an_unknown_lane_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        build(trace_of(row("a", 0.0)), Transforms(lanes=("batsh",)))

    assert "interactive" in caught.value.hint


def test_an_empty_window_is_an_error_that_says_how_long_the_trace_is() -> None:
    with pytest.raises(InputError) as caught:
        build(poisson_like(10), Transforms(window_s=(100.0, 200.0)))

    assert "0 to 3 s" in caught.value.hint


def test_the_description_counts_what_is_sent() -> None:
    rows = [row("a", 0.0, lane="batch"), row("b", 0.2), row("c", 4.0)]

    totals = schedule.describe(build(trace_of(*rows), Transforms()))

    assert totals["lanes"] == {"batch": 1, "interactive": 2}
    assert (totals["prompt_tokens"], totals["output_tokens"]) == (30, 15)
    assert (totals["duration_s"], totals["peak_rate_rps"]) == (4.0, 2)


def test_turns_that_wait_for_each_other_in_a_circle_go_out_all_the_same() -> None:
    trace = trace_of(
        row("tail", 0.0, parent_id="a"),
        row("a", 1.0, parent_id="b"),
        row("b", 2.0, parent_id="a"),
        row("self", 3.0, parent_id="self"),
    )

    built = build(trace, Transforms())

    parents = {send.request_id: send.parent_id for send in built.sends}
    assert parents == {"tail": "a", "a": None, "b": "a", "self": None}
    assert list(built.notes.values()) == [2]
