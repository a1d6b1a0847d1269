"""The scheduler by hand-computed examples: whole event logs and whole steps."""

from dataclasses import replace

import pytest

from loadkit.core import (
    POLICIES,
    PROFILES,
    EngineLimits,
    Policy,
    Scheduler,
    Sequence,
    Step,
    StepCost,
    parse_policy,
    queue_bound,
)

SMALL = EngineLimits(
    max_num_seqs=4,
    max_num_batched_tokens=16,
    kv_blocks=8,
    block_tokens=4,
    max_model_len=32,
    chunk_tokens=16,
    prefix_cache=False,
)


def seq(name: str, prompt: int, output: int, **more: object) -> Sequence:
    return Sequence(name, prompt, output, **more)  # type: ignore[arg-type]


def shape(step: Step | None) -> tuple[list[tuple[str, int]], list[str]]:
    assert step is not None
    return [(s.request_id, n) for s, n in step.prefills], [s.request_id for s in step.decodes]


def run(scheduler: Scheduler, now_s: float = 0.0, step_s: float = 1.0, limit: int = 1000) -> float:
    for _ in range(limit):
        step = scheduler.begin_step(now_s)
        if step is None:
            return now_s
        now_s += step_s
        scheduler.finish_step(step, now_s)
    raise AssertionError("the scheduler never became idle")


def log(scheduler: Scheduler) -> list[tuple[float, str, str, int]]:
    return [(e.t_s, e.kind, e.seq.request_id, e.tokens) for e in scheduler.take_events()]


def test_a_prompt_gives_its_first_token_when_prefilled_and_one_a_step_after_that() -> None:
    scheduler = Scheduler(POLICIES["fcfs"], SMALL)
    a = seq("a", 10, 3)
    scheduler.add(a, 0.5)
    run(scheduler, now_s=1.0)
    assert log(scheduler) == [
        (0.5, "queued", "a", 10),
        (1.0, "scheduled", "a", 0),
        (4.0, "finished", "a", 3),
    ]
    assert (a.queue_wait_s, a.prefill_s, a.first_token_s, a.ended_s) == (0.5, 1.0, 2.0, 4.0)


def test_a_long_prompt_is_chunked_to_the_budget_beside_the_decodes() -> None:
    scheduler = Scheduler(POLICIES["fcfs"], SMALL)
    scheduler.add(seq("short", 4, 9), 0.0)
    first = scheduler.begin_step(0.0)
    assert first is not None
    scheduler.finish_step(first, 1.0)
    scheduler.add(seq("long", 20, 1), 1.0)
    second = scheduler.begin_step(1.0)
    assert shape(second) == ([("long", 15)], ["short"])
    assert second is not None
    scheduler.finish_step(second, 2.0)
    assert shape(scheduler.begin_step(2.0)) == ([("long", 5)], ["short"])


def test_without_chunks_a_prompt_waits_until_it_fits_whole() -> None:
    limits = replace(SMALL, chunk_tokens=None, max_model_len=16)
    scheduler = Scheduler(POLICIES["fcfs"], limits)
    scheduler.add(seq("a", 10, 2), 0.0)
    scheduler.add(seq("b", 10, 2), 0.0)
    first = scheduler.begin_step(0.0)
    assert shape(first) == ([("a", 10)], [])
    assert first is not None
    scheduler.finish_step(first, 1.0)
    assert shape(scheduler.begin_step(1.0)) == ([("b", 10)], ["a"])


def test_when_blocks_run_out_fcfs_evicts_the_last_started_and_recomputes_it() -> None:
    # 8 blocks of 4: each of two 12-token prompts holds 3; at 17 computed tokens each needs a fifth.
    scheduler = Scheduler(
        POLICIES["fcfs"], replace(SMALL, max_num_batched_tokens=32, chunk_tokens=32)
    )
    a, b = seq("a", 12, 10), seq("b", 12, 10)
    scheduler.add(a, 0.0)
    scheduler.add(b, 0.0)
    run(scheduler)
    # Step 1 prefills both (3 blocks each), steps 2-5 compute tokens 13-16 (4 blocks each, all 8 held).
    # In step 6 (t=5) `a` needs a fifth: `b` goes with 16 computed tokens, and comes back when `a` has
    # ended: 10 tokens, one a step, the last at t=10. It then computes all 17 known tokens again, of
    # which 16 for the second time, and needs steps 11-15 for its last five tokens.
    assert log(scheduler) == [
        (0.0, "queued", "a", 12),
        (0.0, "queued", "b", 12),
        (0.0, "scheduled", "a", 0),
        (0.0, "scheduled", "b", 0),
        (5.0, "preempted", "b", 16),
        (10.0, "finished", "a", 10),
        (10.0, "resumed", "b", 0),
        (15.0, "finished", "b", 10),
    ]
    assert (b.preemptions, b.recomputed_tokens, b.time_preempted_s) == (1, 16, 5.0)
    assert (b.queue_wait_s, a.preemptions, a.recomputed_tokens) == (0.0, 0, 0)
    assert scheduler.blocks.free_blocks == 8


def test_a_recomputation_in_chunks_of_one_token_gives_no_token_before_it_is_complete() -> None:
    limits = replace(SMALL, max_num_batched_tokens=32, chunk_tokens=1)
    scheduler = Scheduler(POLICIES["fcfs"], limits)
    a, b = seq("a", 12, 10), seq("b", 12, 10)
    scheduler.add(a, 0.0)
    scheduler.add(b, 0.0)
    run(scheduler)
    # Both compute token 16 in step 16, `b` goes at t=16, `a` ends at t=21, `b` computes 21 tokens.
    assert (b.preemptions, b.recomputed_tokens, a.ended_s, b.ended_s) == (1, 16, 21.0, 42.0)


@pytest.mark.parametrize(
    ("slots", "batch_prompt", "urgent_prompt", "reason"),
    [
        (1, 4, 4, "slot_for_urgent"),  # 7 of 8 blocks are free, the one slot is not
        (4, 20, 16, "blocks_for_urgent"),  # 5 blocks are held, 4 are wanted
        (4, 12, 12, "out_of_blocks"),  # 3 each, until both have grown to 16 tokens
    ],
)
def test_an_eviction_says_what_was_lacking(
    slots: int, batch_prompt: int, urgent_prompt: int, reason: str
) -> None:
    limits = replace(SMALL, max_num_seqs=slots, max_num_batched_tokens=32, chunk_tokens=32)
    scheduler = Scheduler(POLICIES["preempt"], limits)
    scheduler.add(seq("batch", batch_prompt, 10, lane="batch"), 0.0)
    first = scheduler.begin_step(0.0)
    assert first is not None
    scheduler.finish_step(first, 1.0)
    scheduler.add(seq("urgent", urgent_prompt, 10), 1.0)
    run(scheduler, now_s=1.0)
    events = scheduler.take_events()
    assert [(e.seq.request_id, e.reason) for e in events if e.reason] == [("batch", reason)]
    assert [e.kind for e in events if e.reason] == ["preempted"]


def test_a_refusal_and_a_drop_say_why_in_the_log() -> None:
    scheduler = Scheduler(parse_policy("fifo,queue=1,drop-expired"), replace(SMALL, max_num_seqs=1))
    scheduler.add(seq("running", 4, 10), 0.0)
    scheduler.begin_step(0.0)
    scheduler.add(seq("late", 4, 10, deadline_s=2.0), 0.0)
    scheduler.add(seq("one too many", 4, 10), 0.0)
    scheduler.begin_step(3.0)
    told = [(e.kind, e.seq.request_id, e.reason) for e in scheduler.take_events() if e.reason]
    assert told == [
        ("rejected", "one too many", "queue_full"),
        ("expired", "late", "deadline_passed"),
    ]


def test_priority_starts_the_lower_number_first_and_evicts_the_higher() -> None:
    limits = replace(SMALL, max_num_batched_tokens=32)
    scheduler = Scheduler(POLICIES["priority"], limits)
    batch, urgent = seq("batch", 12, 10, priority=5), seq("urgent", 12, 10, priority=0)
    scheduler.add(batch, 0.0)
    scheduler.add(urgent, 0.0)
    run(scheduler)
    kinds = [(kind, name) for _, kind, name, _ in log(scheduler)]
    assert kinds == [
        ("queued", "batch"),
        ("queued", "urgent"),
        ("scheduled", "urgent"),
        ("scheduled", "batch"),
        ("preempted", "batch"),
        ("finished", "urgent"),
        ("resumed", "batch"),
        ("finished", "batch"),
    ]


def test_a_victim_already_in_the_step_is_taken_out_of_it() -> None:
    # `batch` started first, so it is looked at first; `urgent` then needs its blocks.
    scheduler = Scheduler(POLICIES["priority"], replace(SMALL, max_num_batched_tokens=32))
    batch, urgent = seq("batch", 13, 10, priority=5), seq("urgent", 12, 10, priority=0)
    scheduler.add(batch, 0.0)
    first = scheduler.begin_step(0.0)
    assert first is not None
    scheduler.finish_step(first, 1.0)
    scheduler.add(urgent, 1.0)
    now_s = 1.0
    while not batch.preemptions:
        step = scheduler.begin_step(now_s)
        assert step is not None
        assert step.num_tokens == step.prefill_tokens + len(step.decodes)
        now_s += 1.0
        scheduler.finish_step(step, now_s)
    assert shape(step) == ([], ["urgent"])
    assert batch.recomputed_tokens == 0
    run(scheduler, now_s)
    assert batch.generated_tokens == urgent.generated_tokens == 10


def test_self_eviction_does_not_stop_the_others() -> None:
    """The least urgent needs a block and is itself the victim: the step still serves the rest."""
    scheduler = Scheduler(POLICIES["priority"], replace(SMALL, max_num_batched_tokens=32))
    batch, urgent = seq("batch", 15, 10, priority=5), seq("urgent", 13, 10, priority=0)
    scheduler.add(batch, 0.0)
    first = scheduler.begin_step(0.0)
    assert first is not None
    scheduler.finish_step(first, 1.0)
    scheduler.add(urgent, 1.0)
    now_s = 1.0
    while not batch.preemptions:
        step = scheduler.begin_step(now_s)
        assert step is not None
        now_s += 1.0
        scheduler.finish_step(step, now_s)
    assert shape(step) == ([], ["urgent"])


def test_a_shared_prefix_is_computed_once() -> None:
    limits = replace(SMALL, prefix_cache=True)
    scheduler = Scheduler(POLICIES["fcfs"], limits)
    first = seq("first", 12, 1, block_hashes=[11, 12, 13])
    scheduler.add(first, 0.0)
    run(scheduler)
    second = seq("second", 12, 1, block_hashes=[11, 12, 99])
    scheduler.add(second, 5.0)
    assert shape(scheduler.begin_step(5.0)) == ([("second", 4)], [])
    assert second.cached_tokens == 8


def test_a_wholly_cached_prompt_still_computes_its_last_block() -> None:
    """The next token is the output of the last prompt token, so that one cannot be skipped."""
    scheduler = Scheduler(POLICIES["fcfs"], replace(SMALL, prefix_cache=True))
    for name in ("first", "second"):
        scheduler.add(seq(name, 8, 1, block_hashes=[1, 2]), 0.0)
        run(scheduler)
    events = {(kind, name): tokens for _, kind, name, tokens in log(scheduler)}
    assert events["scheduled", "second"] == 4


def test_an_evicted_sequence_finds_its_own_blocks_again_where_nobody_took_them() -> None:
    limits = replace(SMALL, max_num_batched_tokens=32, prefix_cache=True)
    scheduler = Scheduler(POLICIES["fcfs"], limits)
    a = seq("a", 12, 8, block_hashes=[1, 2, 3])
    b = seq("b", 12, 8, block_hashes=[4, 5, 6])
    scheduler.add(a, 0.0)
    scheduler.add(b, 0.0)
    run(scheduler)
    # `b` loses 4 full blocks at t=5; `a` takes one (b's tail, freed first) and ends. 12 of the 16 stay.
    assert (b.preemptions, b.recomputed_tokens) == (1, 4)


def test_a_full_queue_refuses_with_the_time_until_it_has_drained() -> None:
    policy = replace(POLICIES["fcfs"], admit=queue_bound(2))
    scheduler = Scheduler(policy, replace(SMALL, max_num_seqs=1))
    for number in range(3):
        scheduler.add(seq(f"early{number}", 4, 1), 0.0)
        if number == 0:
            step = scheduler.begin_step(0.0)
    assert step is not None
    refusal = scheduler.add(seq("late", 4, 1), 0.0)
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after_s) == ("queue_full", None)
    scheduler.finish_step(step, 2.0)
    step = scheduler.begin_step(2.0)
    scheduler.add(seq("next", 4, 1), 3.0)
    refusal = scheduler.add(seq("later", 4, 1), 4.0)
    assert refusal is not None
    # Starts at 0 and 2, now 4: one gap in 4 s = 0.25/s; two ahead have started after 8 s.
    assert refusal.retry_after_s == pytest.approx(8.0)


def test_cancelling_in_the_middle_of_a_step_frees_the_blocks_at_once_and_gives_no_token() -> None:
    scheduler = Scheduler(POLICIES["fcfs"], SMALL)
    a, b = seq("a", 4, 5), seq("b", 4, 5)
    scheduler.add(a, 0.0)
    scheduler.add(b, 0.0)
    step = scheduler.begin_step(0.0)
    assert step is not None
    scheduler.cancel(a, 0.5)
    assert scheduler.blocks.used_blocks == 1
    assert [token.seq for token in scheduler.finish_step(step, 1.0)] == [b]
    scheduler.cancel(a, 2.0)
    assert [row for row in log(scheduler) if row[1] == "cancelled"] == [(0.5, "cancelled", "a", 0)]


def test_a_deadline_passed_in_the_queue_ends_a_sequence_only_if_the_policy_says_so() -> None:
    limits = replace(SMALL, max_num_seqs=1)
    for drop, ends in ((True, "expired"), (False, "finished")):
        scheduler = Scheduler(Policy("test", drop_expired=drop), limits)
        running, late = seq("running", 4, 5, deadline_s=1.5), seq("late", 4, 1, deadline_s=1.5)
        scheduler.add(running, 0.0)
        scheduler.add(late, 0.0)
        run(scheduler)
        assert (running.state, late.state) == ("finished", ends)


def test_cancelled_waiters_are_skipped_and_not_counted() -> None:
    scheduler = Scheduler(POLICIES["fcfs"], SMALL)
    a, b = seq("a", 4, 1), seq("b", 4, 1)
    scheduler.add(a, 0.0)
    scheduler.add(b, 0.0)
    scheduler.cancel(a, 0.0)
    assert len(scheduler.waiting) == 1
    assert shape(scheduler.begin_step(0.0)) == ([("b", 4)], [])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"max_num_seqs": 0}, "slots"),
        ({"max_num_batched_tokens": 3}, "budget"),
        ({"chunk_tokens": 0}, "chunk"),
        ({"chunk_tokens": None}, "whole prompt"),
        ({"kv_blocks": 7}, "KV blocks"),
    ],
)
def test_limits_under_which_a_request_could_wait_for_ever_are_refused(
    change: dict[str, int | None], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_a_request_that_can_never_run_is_refused() -> None:
    scheduler = Scheduler(POLICIES["fcfs"], SMALL)
    with pytest.raises(ValueError, match="longer"):
        scheduler.add(seq("a", 30, 3), 0.0)
    with pytest.raises(ValueError, match="at least 1"):
        scheduler.add(seq("a", 0, 3), 0.0)


def test_the_h100_profile_costs_what_the_card_does() -> None:
    """32k prompt tokens in half a second; a 512-token chunk beside 8 streams in about 8 ms."""
    cost = PROFILES["h100-8b"].cost
    filler = seq("x", 1, 1)
    assert cost(Step([(filler, 32_768)], [], 32_768)) == pytest.approx(0.5, rel=0.01)
    assert cost(Step([(filler, 512)], [filler] * 8, 512)) == pytest.approx(8.15e-3, rel=0.01)
    assert StepCost(2.0, 0.0, 0.5)(Step([], [filler] * 3, 0)) == 3.5
