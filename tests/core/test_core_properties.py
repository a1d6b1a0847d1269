"""What holds after every step under random operations, and the exact oracle of one server."""

from dataclasses import replace
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadkit.core import (
    POLICIES,
    EngineLimits,
    Policy,
    Scheduler,
    Sequence,
    Step,
    StepCost,
    parse_policy,
)
from loadkit.core.policies import queue_bound

BOUNDED = replace(POLICIES["fcfs"], admit=queue_bound(3), drop_expired=True)
RICH = [
    parse_policy(text)
    for text in (
        "reserve:2+preempt",
        "reserve:3blocks+preempt,victim=largest-kv",
        "reserve:9tokens,floor=1",
        "preempt,recovery=swap,min-run=2s,victim=most-remaining",
        "priority,aging=3s,floor=1,preempt,victim=lowest-priority",
        "fair,weight.t1=2,static",
        "sjf,favour=prefill",
        "edf,deadline,codel=4s/1s",
        "adaptive-lifo=2s,max-wait=6s",
    )
]
POLICY = st.sampled_from([POLICIES["fcfs"], POLICIES["priority"], BOUNDED, *RICH])
PROMPT = st.integers(1, 30)
OUTPUT = st.integers(1, 12)
ADD = st.tuples(st.just("add"), PROMPT, OUTPUT, st.integers(0, 3), st.integers(0, 2))
STEP = st.tuples(st.just("step"), st.just(0), st.just(0), st.just(0), st.just(0))
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 40), st.just(0), st.just(0), st.just(0))
OPERATIONS = st.lists(st.one_of(ADD, STEP, STEP, CANCEL), max_size=60)
LIMITS = st.builds(
    EngineLimits,
    max_num_seqs=st.integers(1, 5),
    max_num_batched_tokens=st.integers(5, 48),
    kv_blocks=st.integers(11, 14),
    block_tokens=st.just(4),
    max_model_len=st.just(44),
    chunk_tokens=st.sampled_from([1, 3, 16, 64]),
    prefix_cache=st.booleans(),
) | st.builds(
    EngineLimits,
    max_num_seqs=st.integers(1, 5),
    max_num_batched_tokens=st.integers(44, 60),
    kv_blocks=st.integers(11, 14),
    block_tokens=st.just(4),
    max_model_len=st.just(44),
    chunk_tokens=st.none(),
    prefix_cache=st.booleans(),
)


class Bench:
    """A scheduler with its own books beside it."""

    def __init__(self, policy: Policy, limits: EngineLimits) -> None:
        headroom = policy.headroom
        assume(not headroom or headroom.unit != "slots" or headroom.amount < limits.max_num_seqs)
        self.scheduler = Scheduler(policy, limits)
        self.seqs: list[Sequence] = []
        self.now_s = 0.0
        self.computed_tokens = 0
        self.tokens_out = 0

    def add(self, prompt: int, output: int, priority: int, family: int) -> None:
        hashes = [hash((family, block)) for block in range(prompt // 4)]
        seq = Sequence(
            f"r{len(self.seqs)}",
            prompt,
            output,
            max_tokens=output,
            lane=("interactive", "batch", "near-line", "best-effort")[(priority + family) % 4],
            tenant=f"t{family}",
            priority=priority,
            deadline_s=self.now_s + 5,
            block_hashes=hashes,
        )
        self.seqs.append(seq)
        self.scheduler.add(seq, self.now_s)

    def step(self) -> bool:
        step = self.scheduler.begin_step(self.now_s)
        if step is None:
            assert not self.scheduler.running
            assert not self.scheduler.waiting
            return False
        self.check_step(step)
        self.now_s += 1
        self.computed_tokens += step.num_tokens
        for seq, position, is_last in self.scheduler.finish_step(step, self.now_s):
            assert seq.computed_tokens == seq.prompt_tokens + position
            assert is_last == (position == seq.output_tokens - 1)
            self.tokens_out += 1
        return True

    def check_step(self, step: Step) -> None:
        limits = self.scheduler.limits
        members = [seq for seq, _ in step.prefills] + step.decodes
        assert len(set(map(id, members))) == len(members), "somebody is twice in a step"
        assert all(seq.state == "running" for seq in members)
        assert step.prefill_tokens == sum(count for _, count in step.prefills)
        assert 0 < step.num_tokens <= limits.max_num_batched_tokens
        assert len(self.scheduler.running) <= limits.max_num_seqs

    def check_books(self) -> None:
        scheduler, blocks = self.scheduler, self.scheduler.blocks
        assert blocks.free_blocks + blocks.used_blocks == blocks.num_blocks
        references = [0] * blocks.num_blocks
        for seq in scheduler.running:
            assert seq.computed_tokens <= len(seq.block_table) * blocks.block_tokens
            for block in seq.block_table:
                references[block] += 1
        assert references == blocks._refs
        assert {block for block, count in enumerate(references) if not count} == set(blocks._free)
        states = [seq.state for seq in self.seqs]
        assert states.count("running") == len(scheduler.running)
        assert states.count("waiting") == len(scheduler.waiting) == len(list(scheduler.waiting))
        assert not any(seq.block_table for seq in self.seqs if seq.state != "running")


@settings(max_examples=150, deadline=None)
@given(POLICY, LIMITS, OPERATIONS)
def test_blocks_budget_and_queues_add_up_after_every_operation(
    policy: Policy, limits: EngineLimits, operations: list[tuple[str, int, int, int, int]]
) -> None:
    bench = Bench(policy, limits)
    for name, *numbers in operations:
        if name == "add":
            bench.add(*numbers)
        elif name == "step":
            bench.step()
        elif numbers[0] < len(bench.seqs):
            bench.scheduler.cancel(bench.seqs[numbers[0]], bench.now_s)
        bench.check_books()
    for _ in range(5_000):
        if not bench.step():
            break
        bench.check_books()
    assert not bench.scheduler.running
    assert bench.scheduler.blocks.used_blocks == 0
    finished = [seq for seq in bench.seqs if seq.state == "finished"]
    assert all(seq.generated_tokens == seq.output_tokens for seq in finished)
    assert bench.tokens_out == sum(seq.generated_tokens for seq in bench.seqs)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([POLICIES["fcfs"], POLICIES["priority"], *RICH[:2], RICH[6]]),
    LIMITS,
    st.lists(st.tuples(PROMPT, OUTPUT, st.integers(0, 3)), min_size=1, max_size=12),
)
def test_every_computed_token_is_either_new_or_counted_as_recomputed(
    policy: Policy, limits: EngineLimits, requests: list[tuple[int, int, int]]
) -> None:
    """Work is conserved: nothing is computed that nobody needed, nothing is forgotten."""
    bench = Bench(policy, replace(limits, prefix_cache=False))
    for prompt, output, priority in requests:
        bench.add(prompt, output, priority, 0)
    while bench.step():
        pass
    # The last generated token is never fed back, hence -1.
    new = sum(seq.prompt_tokens + seq.output_tokens - 1 for seq in bench.seqs)
    recomputed = sum(seq.recomputed_tokens for seq in bench.seqs)
    assert bench.computed_tokens == new + recomputed
    assert (recomputed > 0) == any(seq.preemptions for seq in bench.seqs)


@settings(max_examples=100, deadline=None)
@given(LIMITS, st.lists(st.tuples(PROMPT, OUTPUT, st.just(0)), min_size=1, max_size=12))
def test_under_fcfs_nobody_starts_before_an_earlier_arrival(
    limits: EngineLimits, requests: list[tuple[int, int, int]]
) -> None:
    bench = Bench(POLICIES["fcfs"], limits)
    for prompt, output, priority in requests:
        bench.add(prompt, output, priority, 0)
    while bench.step():
        pass
    starts = [
        event.seq.number for event in bench.scheduler.take_events() if event.kind == "scheduled"
    ]
    assert starts == sorted(starts)


def test_one_server_with_constant_cost_waits_exactly_as_lindley_says() -> None:
    """w[i+1] = max(0, w[i] + S - gap), path by path, at loads below, near and above one."""
    service_s = 1.0
    limits = EngineLimits(max_num_seqs=1, max_num_batched_tokens=8, chunk_tokens=8)
    for load in (0.5, 0.9, 1.2):
        rng = Random(7)
        gaps_s = [rng.expovariate(load / service_s) for _ in range(3_000)]
        expected = [0.0]
        for gap_s in gaps_s:
            expected.append(max(0.0, expected[-1] + service_s - gap_s))
        waits = _simulate(limits, StepCost(service_s, 0.0, 0.0), gaps_s)
        worst = max(abs(wait - lindley) for wait, lindley in zip(waits, expected, strict=True))
        assert worst < 1e-8


def _simulate(limits: EngineLimits, cost: StepCost, gaps_s: list[float]) -> list[float]:
    arrivals_s = [0.0]
    for gap_s in gaps_s:
        arrivals_s.append(arrivals_s[-1] + gap_s)
    scheduler = Scheduler(POLICIES["fcfs"], limits)
    seqs = [Sequence(f"r{i}", 4, 1) for i in range(len(arrivals_s))]
    now_s, arrived = 0.0, 0
    while True:
        while arrived < len(seqs) and arrivals_s[arrived] <= now_s:
            scheduler.add(seqs[arrived], arrivals_s[arrived])
            arrived += 1
        step = scheduler.begin_step(now_s)
        if step is None:
            if arrived == len(seqs):
                break
            now_s = arrivals_s[arrived]
            continue
        now_s += cost(step)
        scheduler.finish_step(step, now_s)
    return [seq.queue_wait_s or 0.0 for seq in seqs]
