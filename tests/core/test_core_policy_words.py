"""The policy language, and every decision rule by a hand-made example."""

import pytest

from loadkit.core import Job, PolicyError, SlotPool, parse_policy, policy_from_toml
from loadkit.core.history import LengthHistory
from loadkit.core.policies import CoDel, Headroom


def pool(policy: str, slots: int = 1, recovery_s: float = 0.0) -> SlotPool:
    return SlotPool(parse_policy(policy), slots, recovery_s)


def job(number: int, service_s: float = 10.0, lane: str = "interactive", **more: object) -> Job:
    return Job(number, 0.0, service_s, lane, **more)  # type: ignore[arg-type]


def starting_order(policy: str, jobs: list[Job]) -> list[int]:
    """Numbers in the order one slot serves them, all having arrived at 0 behind a running one."""
    slot = pool(policy)
    slot.arrive(job(-1, service_s=1.0), 0.0)
    slot.decide(0.0)
    for one in jobs:
        slot.arrive(one, 0.0)
    while slot.next_end_s < float("inf"):
        now_s = slot.next_end_s
        slot.leave_ended(now_s)
        slot.decide(now_s)
    return sorted(range(len(jobs)), key=lambda index: jobs[index].first_scheduled_s or 0.0)


MIXED = [
    {"number": 0, "service_s": 30.0, "lane": "batch", "deadline_s": 50.0},
    {"number": 1, "service_s": 20.0, "lane": "interactive", "priority": 1},
    {"number": 2, "service_s": 10.0, "lane": "near-line", "deadline_s": 40.0},
    {"number": 3, "service_s": 15.0, "lane": "interactive", "deadline_s": 90.0},
]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fifo", [0, 1, 2, 3]),
        ("fcfs", [0, 1, 2, 3]),
        ("priority", [3, 2, 0, 1]),
        ("sjf", [2, 3, 1, 0]),
        ("edf", [2, 0, 3, 1]),
        ("adaptive-lifo=500ms", [3, 2, 1, 0]),
        ("adaptive-lifo=1h", [0, 1, 2, 3]),
        # Level x 10 s + arrival: all came at 0, so levels decide, priority 1 ties with batch.
        ("priority,aging=10s", [3, 2, 0, 1]),
    ],
)
def test_each_order_serves_four_waiting_jobs_as_worked_out_by_hand(
    policy: str, order: list[int]
) -> None:
    jobs = [job(**of) for of in MIXED]  # type: ignore[arg-type]
    assert starting_order(policy, jobs) == order


def test_fair_order_shares_by_weight_between_tenants() -> None:
    # SFQ start tags: a (weight 1): 0, 10, 20; b (weight 2): 0, 5, 10. Ties go by arrival.
    tenants = ["a", "a", "a", "b", "b", "b"]
    jobs = [job(number, tenant=tenant) for number, tenant in enumerate(tenants)]
    # V stays at the tag of the last start, so tags 0a 0b 5b 10a 10b 20a.
    assert starting_order("fair,weight.b=2", jobs) == [0, 3, 4, 1, 5, 2]


def test_headroom_keeps_slots_free_of_batch_and_a_floor_keeps_some_for_it() -> None:
    slot = pool("reserve:2", slots=5)
    for number in range(5):
        slot.arrive(job(number, lane="batch"), 0.0)
    slot.decide(0.0)
    assert (slot.free, len(slot.waiting)) == (2, 2)
    slot = pool("priority,floor=2", slots=3)
    for number in range(6):
        slot.arrive(job(number, lane="batch" if number > 2 else "interactive"), 0.0)
    slot.decide(0.0)
    assert slot.waiting.lane_sizes == {"interactive": 2, "batch": 1}


@pytest.mark.parametrize(
    ("victim", "expected"),
    [("youngest", 2), ("most-remaining", 0), ("lowest-priority", 1), ("largest-kv", 3)],
)
def test_each_victim_rule_evicts_whom_it_names(victim: str, expected: int) -> None:
    slot = pool(f"preempt:{victim}", slots=4, recovery_s=15.0)
    batch = [
        job(0, 100.0, "batch", tokens=10),
        job(1, 20.0, "batch", tokens=10, priority=3),
        job(2, 20.0, "batch", tokens=10),
        job(3, 20.0, "batch", tokens=99),
    ]
    for at_s, number in ((0.0, 0), (1.0, 1), (3.0, 2), (2.0, 3)):
        batch[number].number = number
        slot.arrive(batch[number], at_s)
        slot.decide(at_s)
    slot.arrive(job(9), 5.0)
    slot.decide(5.0)
    evicted = [one.number for one in batch if one.preemptions]
    assert evicted == [expected]
    started_s = batch[expected].started_s
    assert batch[expected].left_s == batch[expected].service_s - (5.0 - started_s) + 15.0


def test_who_has_run_for_less_than_the_minimum_is_spared() -> None:
    slot = pool("preempt,min-run=4s", slots=1)
    young = job(0, 50.0, "batch")
    slot.arrive(young, 0.0)
    slot.decide(0.0)
    slot.arrive(job(1), 3.0)
    slot.decide(3.0)
    assert young.preemptions == 0
    slot.decide(4.0)
    assert young.preemptions == 1


def test_a_floor_also_holds_against_eviction() -> None:
    slot = pool("preempt,floor=1", slots=2)
    for number in range(2):
        slot.arrive(job(number, lane="batch"), 0.0)
    slot.decide(0.0)
    for number in range(2, 5):
        slot.arrive(job(number), 1.0)
    slot.decide(1.0)
    assert slot.preemptions == 1


def test_static_batching_starts_nobody_until_everybody_has_finished() -> None:
    slot = pool("static", slots=2)
    jobs = [job(0, 1.0), job(1, 5.0), job(2, 1.0)]
    for one in jobs:
        slot.arrive(one, 0.0)
    slot.decide(0.0)
    for now_s in (1.0, 5.0):
        slot.leave_ended(now_s)
        slot.decide(now_s)
    assert jobs[2].first_scheduled_s == 5.0


def test_a_refusal_names_its_reason_and_when_to_come_again() -> None:
    slot = pool("fifo,queue=2")
    jobs = [job(number, 4.0) for number in range(6)]
    for one in jobs[:3]:
        slot.arrive(one, 0.0)
        slot.decide(0.0)
    slot.leave_ended(4.0)
    slot.decide(4.0)
    slot.arrive(jobs[3], 5.0)
    slot.arrive(jobs[4], 8.0 - 1e-9)
    assert (jobs[3].state, jobs[4].state, jobs[4].refusal) == ("waiting", "rejected", "queue_full")
    # Starts at 0 and 4, now 8: a start every 8 s; the two ahead have started after 16.
    assert jobs[4].retry_after_s == pytest.approx(16.0)


def test_one_lane_may_be_bounded_and_the_others_not() -> None:
    slot = pool("priority,batch.queue=1")
    jobs = [job(0), job(1, lane="batch"), job(2, lane="batch"), job(3), job(4)]
    for one in jobs:
        slot.arrive(one, 0.0)
        slot.decide(0.0)
    assert [one.state for one in jobs] == ["running", "waiting", "rejected", "waiting", "waiting"]
    assert jobs[2].refusal == "lane_queue_full"


def test_a_long_estimated_wait_is_refused_by_the_usual_length_not_the_queue_length() -> None:
    slot = pool("fifo,max-wait=30s")
    for number in range(12):  # ends at 10, 20, … : 1 s of work a second
        slot.arrive(job(number), 10.0 * number)
        slot.decide(10.0 * number)
        slot.leave_ended(10.0 * (number + 1))
    now_s = 120.0
    states = []
    for number in range(12, 19):
        one = job(number)
        slot.arrive(one, now_s)
        slot.decide(now_s)
        states.append(one.state)
    # One runs; then 0, 10, 20 and 30 s of work are queued before an arrival, then 40.
    assert states == ["running", *["waiting"] * 4, "rejected", "rejected"]
    assert one.refusal == "wait_too_long"
    assert one.retry_after_s == pytest.approx(10.0)


def test_what_cannot_meet_its_deadline_is_refused_and_what_has_missed_it_is_dropped() -> None:
    slot = pool("fifo,deadline")
    jobs = [job(0, 50.0), job(1, deadline_s=20.0), job(2, deadline_s=5.0)]
    slot.arrive(jobs[0], 0.0)
    slot.decide(0.0)
    slot.arrive(jobs[1], 1.0)
    slot.arrive(jobs[2], 6.0)
    assert (jobs[2].state, jobs[2].refusal) == ("rejected", "deadline_passed")
    slot.leave_ended(50.0)
    slot.decide(50.0)
    assert (jobs[1].state, jobs[1].refusal) == ("expired", "deadline_passed")


def test_a_standing_queue_shortens_the_time_out() -> None:
    codel = CoDel(interval_s=10.0, target_s=1.0)
    assert codel.timeout_s(now_s=100.0, last_empty_s=95.0) == 10.0
    assert codel.timeout_s(now_s=100.0, last_empty_s=89.0) == 1.0
    slot = pool("fifo,codel=10s/1s")
    jobs = [job(0, 100.0), job(1), job(2)]
    for at_s, one in zip((0.0, 1.0, 20.0), jobs, strict=True):
        slot.arrive(one, at_s)
        slot.decide(at_s)
    slot.decide(22.0)
    assert [one.state for one in jobs] == ["running", "expired", "expired"]
    assert jobs[1].ended_s == 20.0  # its 10 s were over; nothing happened before
    assert jobs[2].refusal == "queue_timeout"


def test_the_usual_length_is_the_nearest_rank_p80_of_the_tenant_and_never_above_the_limit() -> None:
    history = LengthHistory()
    assert history.guess("a", 500.0) == 500.0
    for length in range(1, 11):
        history.ended("a", float(length))
    assert history.guess("a", 500.0) == 8.0
    assert history.guess("a", 3.0) == 3.0
    assert history.guess("b", 500.0) == 500.0


def test_a_policy_is_the_same_as_a_string_and_as_toml() -> None:
    text = parse_policy("priority,sjf,reserve:64blocks,preempt:largest-kv,batch.queue=9,floor=3")
    toml = policy_from_toml(
        """
        order = ["priority", "sjf"]
        reserve = "64blocks"
        preempt = "largest-kv"
        floor = 3
        [lane.batch]
        queue = 9
        """,
        "mine",
    )
    assert toml.name == "mine"
    assert text.headroom == toml.headroom == Headroom(64, "blocks")
    assert (toml.floor, toml.preemption) == (text.floor, text.preemption)
    assert repr(toml.order) == repr(text.order)
    assert repr(toml.lanes) == repr(text.lanes)
    weighted = policy_from_toml('order = "fair"\n[weights]\nacme = 2', "w")
    assert weighted.weights == {"acme": 2.0}


@pytest.mark.parametrize(
    ("text", "word", "hint"),
    [
        ("fifoo", "fifoo", "fifo, fcfs"),
        ("", "not a policy", "words"),
        ("fifo,,queue=3", "not a policy", "words"),
        ("queue=x", "queue", "whole number"),
        ("queue=0", "queue", "whole number"),
        ("priority,aging=5", "duration", "500ms"),
        ("priority,aging=0s", "aging", "above 0"),
        ("fifo,aging=1h", "aging", "priority"),
        ("reserve:lots", "reserve", "reserve:8"),
        ("preempt:oldest", "victim", "youngest"),
        ("fifo,sjf", "two orders", "one"),
        ("min-run=3s", "min-run", "preempt"),
        ("weight.acme=2", "weight", "fair"),
        ("fair,weight.acme=-1", "weight.acme", "above 0"),
        ("batch.order=sjf", "lanes apart", "priority"),
        ("batch.floor=3", "batch.floor", "known"),
        ("sjf,adaptive-lifo", "arrival order", "leave out"),
        ("static=yes", "no value", "static"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_would_be(text: str, word: str, hint: str) -> None:
    with pytest.raises(PolicyError, match=word) as caught:
        parse_policy(text)
    assert hint in caught.value.hint


def test_toml_that_is_none_is_refused() -> None:
    for text in ("reserve = ", "lane = 3", "[lane]\nbatch = 1", "weights = 1", "fifo = 3"):
        with pytest.raises(PolicyError):
            policy_from_toml(text, "x")


def test_a_slot_pool_refuses_headroom_in_blocks() -> None:
    with pytest.raises(ValueError, match="slots"):
        pool("reserve:5blocks")
