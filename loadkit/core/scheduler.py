"""Token-step continuous batching in vLLM's words, without I/O: says what the next step is, commits it."""

from loadkit.core import room
from loadkit.core.admission import EngineView, Refusal
from loadkit.core.blocks import BlockPool
from loadkit.core.entrance import Entrance
from loadkit.core.limits import EngineLimits
from loadkit.core.orders import is_deferrable
from loadkit.core.policies import Policy
from loadkit.core.sequence import End, Event, EventKind, EvictionReason, Sequence, Step, Token


class Scheduler:
    """Decides. `begin_step`, let the step's cost pass, `finish_step`; `add` and `cancel` at any time.

    Raises ValueError for a headroom under which batch could never start.
    `events` collects what was decided; the host takes the list with `take_events`.
    """

    def __init__(self, policy: Policy, limits: EngineLimits) -> None:
        room.check_headroom(policy.headroom, limits.max_num_seqs)
        self.policy = policy
        self.limits = limits
        self.blocks = BlockPool(limits.kv_blocks, limits.block_tokens)
        self.entrance: Entrance[Sequence] = Entrance(policy)
        self.waiting = self.entrance.waiting
        self.running: list[Sequence] = []
        self._arrivals = 0
        self._events: list[Event] = []

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def view(self, now_s: float) -> EngineView:
        free_slots = self.limits.max_num_seqs - len(self.running)
        return self.entrance.view(now_s, len(self.running), free_slots, self.blocks.free_blocks)

    def add(self, seq: Sequence, now_s: float) -> Refusal | None:
        """An arrival; queued unless refused. Raises ValueError for one that can never run."""
        if seq.prompt_tokens < 1 or seq.output_tokens < 1:
            raise ValueError(f"{seq.request_id}: prompt and output must be at least 1 token")
        if seq.prompt_tokens + seq.output_tokens > self.limits.max_model_len:
            raise ValueError(f"{seq.request_id}: longer than {self.limits.max_model_len} tokens")
        seq.arrival_s, seq.number = now_s, self._arrivals
        self._arrivals += 1
        free_slots = self.limits.max_num_seqs - len(self.running)
        refusal = self.entrance.refusal(
            seq, now_s, len(self.running), free_slots, self.blocks.free_blocks
        )
        if refusal:
            self._end(seq, "rejected", now_s)
        else:
            self._enqueue(seq, now_s)
        return refusal

    def cancel(self, seq: Sequence, now_s: float) -> None:
        """Give it up and free its blocks at once; nothing for one that has ended."""
        if seq.state in ("waiting", "running"):
            self._leave(seq, "cancelled", now_s)

    def expire(self, now_s: float) -> None:
        """End every sequence whose time-out in the queue has passed, if the policy gives one."""
        while seq := self.entrance.overdue(now_s):
            self._leave(seq, "expired", now_s)

    def begin_step(self, now_s: float) -> Step | None:
        """What to compute next; None when there is nothing to do."""
        if self.entrance.times_out:
            self.expire(now_s)
        step = Step()
        if self.policy.favour == "prefill" and self._prefill_only(step, now_s):
            return step
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
                tokens.append(seq.generate(now_s))
        for seq in step.decodes:
            if seq.state == "running":
                seq.computed_tokens += 1  # never computed before: the token is new
                if seq.computed_tokens % block_tokens == 0:
                    self._remember(seq, seq.computed_tokens - 1)
                tokens.append(seq.generate(now_s))
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
                self._preempt(victim, "out_of_blocks", step, now_s)
                if victim is seq:
                    # Unlike vLLM the others go on: an empty step would do no work for nobody.
                    index, count = index - 1, 0
                elif position < index:
                    index -= 1
            if count:
                self._schedule(seq, count, step)
            index += 1
        return evicted

    def _prefill_only(self, step: Step, now_s: float) -> bool:
        """Compute prompts and nothing else, as long as there are any. False = there are none."""
        for seq in self.running:
            if not seq.generated_tokens or seq.computed_tokens + 1 < seq.known_tokens:
                count = self._next_tokens(seq.known_tokens - seq.computed_tokens, step)
                if count and self._can_grow(seq, count):
                    self._schedule(seq, count, step)
        self._start_waiting(step, now_s)
        return step.num_tokens > 0

    def _start_waiting(self, step: Step, now_s: float) -> None:
        if self.policy.static and any(seq.generated_tokens for seq in self.running):
            return
        while self.waiting:
            full = len(self.running) >= self.limits.max_num_seqs
            if full and not self.policy.preemption:
                return
            seq = self._next_waiting(now_s)
            if seq is None:
                return
            cached = [] if seq.swapped_tokens else self._cached_prefix(seq)
            ready_tokens = seq.swapped_tokens or len(cached) * self.limits.block_tokens
            count = self._next_tokens(seq.known_tokens - ready_tokens, step)
            if not count:
                return
            if full or not self._can_start(seq, cached):
                why: EvictionReason = "slot_for_urgent" if full else "blocks_for_urgent"
                if not self._evict_for(seq, why, step, now_s):
                    return
                continue
            self.waiting.take(seq)
            self._start(seq, cached, now_s)
            step.swapped_tokens += seq.swapped_tokens
            seq.swapped_tokens = 0
            self._schedule(seq, count, step)

    def _next_waiting(self, now_s: float) -> Sequence | None:
        """Who is to start next; batch only with headroom to spare, or below its floor."""
        policy = self.policy
        if not policy.headroom and not policy.floor:
            return self.waiting.choose(now_s, batch_first=False, batch_may=True)
        batch_first = len(room.batch_of(self.running)) < policy.floor
        seq = self.waiting.choose(now_s, batch_first=batch_first, batch_may=True)
        if seq is None or batch_first or not is_deferrable(seq.lane):
            return seq
        if room.leaves_headroom(policy.headroom, self.limits, self.blocks, self.running, seq):
            return seq
        return self.waiting.choose(now_s, batch_first=False, batch_may=False)

    def _evict_for(self, seq: Sequence, why: EvictionReason, step: Step, now_s: float) -> bool:
        """Take one batch sequence's place for an urgent one. False = nobody may be evicted."""
        victim = room.victim_for(self.policy, self.running, seq, now_s)
        if victim is not None:
            self._preempt(victim, why, step, now_s)
        return victim is not None

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
        seq.computed_tokens = seq.swapped_tokens or len(cached) * self.limits.block_tokens
        seq.started_s = now_s
        seq.state = "running"
        self.running.append(seq)
        if seq.first_scheduled_s is None:
            seq.first_scheduled_s = now_s
            seq.cached_tokens = seq.computed_tokens
            self.entrance.started(seq, now_s)
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

    def _preempt(self, seq: Sequence, why: EvictionReason, step: Step, now_s: float) -> None:
        """Evict: all its blocks are freed, what was computed is to be computed again."""
        step.withdraw(seq)
        self.running.remove(seq)
        self._tell("preempted", seq, now_s, seq.computed_tokens, why)
        self._free(seq)
        seq.peak_computed_tokens = max(seq.peak_computed_tokens, seq.computed_tokens)
        if self.policy.preemption and self.policy.preemption.recovery == "swap":
            seq.swapped_tokens = seq.computed_tokens
            step.swapped_tokens += seq.computed_tokens
        seq.computed_tokens = 0
        seq.preemptions += 1
        seq.preempted_at_s = now_s
        seq.timeout_s = float("inf")  # what has begun is finished
        seq.state = "waiting"
        self.waiting.rejoin(seq)

    def _enqueue(self, seq: Sequence, now_s: float) -> None:
        seq.state = "waiting"
        self.entrance.queue(seq, now_s)
        self._tell("queued", seq, now_s, seq.prompt_tokens)

    def _leave(self, seq: Sequence, state: End, now_s: float) -> None:
        if seq.state == "running":
            self.running.remove(seq)
            self._free(seq)
            if state == "finished":
                self.entrance.ended(seq, now_s, seq.generated_tokens)
        else:
            self.waiting.left(seq)
            if seq.first_scheduled_s is None:
                self.entrance.gave_up(seq)
            if seq.preempted_at_s is not None:
                seq.time_preempted_s += now_s - seq.preempted_at_s
        self._end(seq, state, now_s)

    def _end(self, seq: Sequence, state: End, now_s: float) -> None:
        seq.state = state
        seq.ended_s = now_s
        self._tell(state, seq, now_s, seq.generated_tokens, seq.refusal)

    def _free(self, seq: Sequence) -> None:
        self.blocks.release(seq.block_table)
        seq.block_table = []

    def _tell(
        self, kind: EventKind, seq: Sequence, now_s: float, tokens: int, reason: str | None = None
    ) -> None:
        self._events.append(Event(now_s, kind, seq, tokens, reason))
