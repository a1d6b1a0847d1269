"""Token-step continuous batching in vLLM's words, without I/O: says what the next step is, commits it."""

from collections import deque
from heapq import heappop, heappush

from loadkit.core.blocks import BlockPool
from loadkit.core.limits import EngineLimits
from loadkit.core.policies import EngineView, Policy, Refusal
from loadkit.core.sequence import End, Event, EventKind, Sequence, Step, Token
from loadkit.core.waiting import WaitingQueue


class Scheduler:
    """Decides. `begin_step`, let the step's cost pass, `finish_step`; `add` and `cancel` at any time.

    `events` collects what was decided; the host takes the list with `take_events`.
    """

    def __init__(self, policy: Policy, limits: EngineLimits) -> None:
        self.policy = policy
        self.limits = limits
        self.blocks = BlockPool(limits.kv_blocks, limits.block_tokens)
        self.waiting = WaitingQueue(policy.order)
        self.running: list[Sequence] = []
        self._arrivals = 0
        self._events: list[Event] = []
        self._deadlines: list[tuple[float, int, Sequence]] = []
        self._starts_s: deque[float] = deque(maxlen=33)

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def view(self, now_s: float) -> EngineView:
        return EngineView(
            now_s=now_s,
            waiting=len(self.waiting),
            running=len(self.running),
            free_slots=self.limits.max_num_seqs - len(self.running),
            free_blocks=self.blocks.free_blocks,
            start_rate_rps=self._start_rate_rps(now_s),
        )

    def add(self, seq: Sequence, now_s: float) -> Refusal | None:
        """An arrival; queued unless refused. Raises ValueError for one that can never run."""
        if seq.prompt_tokens < 1 or seq.output_tokens < 1:
            raise ValueError(f"{seq.request_id}: prompt and output must be at least 1 token")
        if seq.prompt_tokens + seq.output_tokens > self.limits.max_model_len:
            raise ValueError(f"{seq.request_id}: longer than {self.limits.max_model_len} tokens")
        seq.arrival_s, seq.number = now_s, self._arrivals
        self._arrivals += 1
        refusal = self.policy.admit(seq, self.view(now_s))
        if refusal:
            seq.refusal = refusal.reason
            self._end(seq, "rejected", now_s)
        else:
            self._enqueue(seq, now_s)
        return refusal

    def cancel(self, seq: Sequence, now_s: float) -> None:
        """Give it up and free its blocks at once; nothing for one that has ended."""
        if seq.state in ("waiting", "running"):
            self._leave(seq, "cancelled", now_s)

    def expire(self, now_s: float) -> None:
        """End every sequence that has not started by its deadline, if the policy says so."""
        while self._deadlines and self._deadlines[0][0] < now_s:
            seq = heappop(self._deadlines)[2]
            if seq.state == "waiting" and seq.first_scheduled_s is None:
                self._leave(seq, "expired", now_s)

    def begin_step(self, now_s: float) -> Step | None:
        """What to compute next; None when there is nothing to do."""
        self.expire(now_s)
        step = Step()
        # As in vLLM, nobody starts in a step that had to take somebody's blocks.
        if not self._continue_running(step, now_s):
            self._start_waiting(step, now_s)
        return step if step.num_tokens else None

    def finish_step(self, step: Step, now_s: float) -> list[Token]:
        """Commit what was computed. Sequences cancelled since `begin_step` give no token."""
        tokens: list[Token] = []
        block_tokens = self.limits.block_tokens
        for seq, count in step.prefills:
            if seq.state != "running":
                continue
            self._advance(seq, count)
            if seq.computed_tokens == seq.known_tokens:
                tokens.append(_generate(seq, now_s))
        for seq in step.decodes:
            if seq.state == "running":
                seq.computed_tokens += 1  # never computed before: the token is new
                if seq.computed_tokens % block_tokens == 0:
                    self._remember(seq, seq.computed_tokens - 1)
                tokens.append(_generate(seq, now_s))
        for token in tokens:
            if token.is_last:
                self._leave(token.seq, "finished", now_s)
        return tokens

    def _continue_running(self, step: Step, now_s: float) -> bool:
        """Give every running sequence its next tokens, evicting where blocks run out. True = evicted."""
        index, evicted = 0, False
        decodes, block_tokens = step.decodes, self.limits.block_tokens
        while index < len(self.running):
            seq = self.running[index]
            if (
                seq.generated_tokens
                and seq.computed_tokens + 1 == seq.prompt_tokens + seq.generated_tokens
                and seq.computed_tokens % block_tokens
                and step.prefill_tokens + len(decodes) < self.limits.max_num_batched_tokens
            ):
                decodes.append(
                    seq
                )  # nearly every case, kept short: one token into a block it holds
                index += 1
                continue
            count = self._next_tokens(seq.known_tokens - seq.computed_tokens, step)
            while count and not self._can_grow(seq, count):
                evicted = True
                victim = self.policy.victim(self.running)
                position = self.running.index(victim)
                self._preempt(victim, step, now_s)
                if victim is seq:
                    # Unlike vLLM the others go on: an empty step would do no work for nobody.
                    index, count = index - 1, 0
                elif position < index:
                    index -= 1
            if count:
                self._schedule(seq, count, step)
            index += 1
        return evicted

    def _start_waiting(self, step: Step, now_s: float) -> None:
        while self.waiting and len(self.running) < self.limits.max_num_seqs:
            seq = self.waiting.peek()
            cached = self._cached_prefix(seq)
            cached_tokens = len(cached) * self.limits.block_tokens
            count = self._next_tokens(seq.known_tokens - cached_tokens, step)
            if not count or not self._can_start(seq, cached):
                return
            self.waiting.pop()
            self._start(seq, cached, now_s)
            self._schedule(seq, count, step)

    def _next_tokens(self, remaining: int, step: Step) -> int:
        """How many of `remaining` tokens fit into the step; 0 = none."""
        budget = self.limits.max_num_batched_tokens - step.num_tokens
        if remaining == 1:
            return min(1, budget)
        chunk_tokens = self.limits.chunk_tokens
        if chunk_tokens is None:
            return remaining if remaining <= budget else 0
        return min(remaining, chunk_tokens, budget)

    def _can_grow(self, seq: Sequence, count: int) -> bool:
        held = len(seq.block_table)
        missing = self.blocks.blocks_for(seq.computed_tokens + count) - held
        return missing <= self.blocks.free_blocks

    def _can_start(self, seq: Sequence, cached: list[int]) -> bool:
        """All tokens known so far must find room (vLLM's scheduler_reserve_full_isl)."""
        missing = self.blocks.blocks_for(seq.known_tokens) - len(cached)
        return missing + self.blocks.free_among(cached) <= self.blocks.free_blocks

    def _cached_prefix(self, seq: Sequence) -> list[int]:
        # The last token is always computed: its output is the next token.
        return self.blocks.match(
            seq.block_hashes, limit=(seq.known_tokens - 1) // self.limits.block_tokens
        )

    def _start(self, seq: Sequence, cached: list[int], now_s: float) -> None:
        self.blocks.share(cached)
        seq.block_table = cached
        seq.computed_tokens = len(cached) * self.limits.block_tokens
        seq.state = "running"
        self.running.append(seq)
        if seq.first_scheduled_s is None:
            seq.first_scheduled_s = now_s
            seq.cached_tokens = seq.computed_tokens
            self._starts_s.append(now_s)
            self._tell("scheduled", seq, now_s, seq.computed_tokens)
        else:
            assert seq.preempted_at_s is not None
            seq.time_preempted_s += now_s - seq.preempted_at_s
            seq.preempted_at_s = None
            self._tell("resumed", seq, now_s, seq.computed_tokens)

    def _schedule(self, seq: Sequence, count: int, step: Step) -> None:
        """Put `count` tokens of `seq` into the step, with the blocks to hold them."""
        end = seq.computed_tokens + count
        missing = self.blocks.blocks_for(end) - len(seq.block_table)
        if missing > 0:
            seq.block_table += self.blocks.take(missing)
        if seq.generated_tokens and end == seq.known_tokens and count == 1:
            step.decodes.append(seq)
        else:
            step.prefills.append((seq, count))
            step.prefill_tokens += count

    def _advance(self, seq: Sequence, count: int) -> None:
        start, end = seq.computed_tokens, seq.computed_tokens + count
        seq.computed_tokens = end
        if seq.peak_computed_tokens > start:
            seq.recomputed_tokens += min(end, seq.peak_computed_tokens) - start
        self._remember(seq, start)

    def _remember(self, seq: Sequence, start: int) -> None:
        """Make the blocks that have filled up since `start` computed tokens findable."""
        if not self.limits.prefix_cache:
            return
        block_tokens = self.limits.block_tokens
        for index in range(start // block_tokens, seq.computed_tokens // block_tokens):
            if index >= len(seq.block_hashes):
                # What it generates is its own: only itself can find it again, after a preemption.
                parent = seq.block_hashes[-1] if seq.block_hashes else 0
                seq.block_hashes.append(hash((parent, seq.number, index)))
            self.blocks.remember(seq.block_table[index], seq.block_hashes[index])

    def _preempt(self, seq: Sequence, step: Step, now_s: float) -> None:
        """Evict: all its blocks are freed, what was computed is to be computed again."""
        _withdraw(step, seq)
        self.running.remove(seq)
        self._tell("preempted", seq, now_s, seq.computed_tokens)
        self._free(seq)
        seq.peak_computed_tokens = max(seq.peak_computed_tokens, seq.computed_tokens)
        seq.computed_tokens = 0
        seq.preemptions += 1
        seq.preempted_at_s = now_s
        seq.state = "waiting"
        self.waiting.push(seq)

    def _enqueue(self, seq: Sequence, now_s: float) -> None:
        seq.state = "waiting"
        self.waiting.push(seq)
        if self.policy.drop_expired and seq.deadline_s is not None:
            heappush(self._deadlines, (seq.deadline_s, seq.number, seq))
        self._tell("queued", seq, now_s, seq.prompt_tokens)

    def _leave(self, seq: Sequence, state: End, now_s: float) -> None:
        if seq.state == "running":
            self.running.remove(seq)
            self._free(seq)
        else:
            self.waiting.left()
            if seq.preempted_at_s is not None:
                seq.time_preempted_s += now_s - seq.preempted_at_s
        self._end(seq, state, now_s)

    def _end(self, seq: Sequence, state: End, now_s: float) -> None:
        seq.state = state
        seq.ended_s = now_s
        self._tell(state, seq, now_s, seq.generated_tokens)

    def _free(self, seq: Sequence) -> None:
        self.blocks.release(seq.block_table)
        seq.block_table = []

    def _tell(self, kind: EventKind, seq: Sequence, now_s: float, tokens: int) -> None:
        self._events.append(Event(now_s, kind, seq, tokens))

    def _start_rate_rps(self, now_s: float) -> float | None:
        starts_s = self._starts_s
        if len(starts_s) < 2 or now_s <= starts_s[0]:
            return None
        return (len(starts_s) - 1) / (now_s - starts_s[0])


def _generate(seq: Sequence, now_s: float) -> Token:
    if seq.first_token_s is None:
        seq.first_token_s = now_s
    seq.last_token_s = now_s
    seq.generated_tokens += 1
    done = seq.generated_tokens >= seq.output_tokens
    return Token(seq, seq.generated_tokens - 1, done)


def _withdraw(step: Step, seq: Sequence) -> None:
    """Take a victim that was already scheduled back out of the step."""
    if seq in step.decodes:
        step.decodes.remove(seq)
    for entry in [entry for entry in step.prefills if entry[0] is seq]:
        step.prefills.remove(entry)
        step.prefill_tokens -= entry[1]
