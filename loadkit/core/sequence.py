"""What the core works on: sequences, the step it wants next, the tokens and events that come out.

Instants (`_s`) are whatever clock the host passes in; the core only ever subtracts them.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

End = Literal["finished", "rejected", "cancelled", "expired"]
State = Literal["new", "waiting", "running"] | End

EventKind = Literal[
    "queued",  # tokens = prompt tokens
    "rejected",  # at arrival, never queued; reason = the refusal's
    "scheduled",  # first start; tokens = prompt tokens found in the prefix cache
    "preempted",  # tokens = computed tokens that were thrown away; reason = an EvictionReason
    "resumed",  # tokens = computed tokens found again in the prefix cache
    "finished",  # tokens = generated tokens
    "cancelled",
    "expired",  # dropped from the queue; reason = the time-out's
]
EvictionReason = Literal[
    "out_of_blocks",  # what runs has grown and the KV cache is full
    "slot_for_urgent",  # every slot was taken when urgent work wanted one
    "blocks_for_urgent",  # a slot was free, but not the blocks that urgent work needs to start
]


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine. The host fills the first block, the scheduler the rest."""

    request_id: str
    prompt_tokens: int
    output_tokens: int
    """How many tokens it will really generate. Only `finish_step` reads this: a policy that did would
    know the future. Policies see `max_tokens`."""
    max_tokens: int | None = None
    lane: str = "interactive"
    tenant: str | None = None
    priority: int = 0
    """Lower = sooner, as in vLLM."""
    deadline_s: float | None = None
    block_hashes: list[int] = field(default_factory=list)
    """Chained hashes of the full blocks of the prompt; grows as generated tokens fill further blocks."""

    number: int = -1
    """Order of arrival; breaks every tie."""
    state: State = "new"
    computed_tokens: int = 0
    """Tokens whose keys and values are in its blocks."""
    generated_tokens: int = 0
    block_table: list[int] = field(default_factory=list)
    arrival_s: float = 0.0
    first_scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    ended_s: float | None = None
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache at the first start."""
    preemptions: int = 0
    preempted_at_s: float | None = None
    time_preempted_s: float = 0.0
    """Between eviction and resumption, summed; no part of the queue wait."""
    peak_computed_tokens: int = 0
    recomputed_tokens: int = 0
    refusal: str | None = None
    retry_after_s: float | None = None
    started_s: float = 0.0
    """Its latest start: the first one, or a resumption."""
    fair_tag: float = 0.0
    guess: float = 0.0
    """Tokens it was guessed to need when it arrived."""
    timeout_s: float = float("inf")
    """Instant at which it is dropped from the queue, and why."""
    timeout_reason: str | None = None
    swapped_tokens: int = 0
    """Computed tokens that wait in host memory after an eviction by swap."""

    @property
    def work(self) -> float:
        return self.prompt_tokens + (self.max_tokens or 0)

    @property
    def fixed_work(self) -> float:
        return self.prompt_tokens

    @property
    def open_work(self) -> float:
        return float("inf") if self.max_tokens is None else self.max_tokens

    @property
    def expected_left(self) -> float:
        return self.prompt_tokens + (self.max_tokens or 0) - self.computed_tokens

    @property
    def kv_tokens(self) -> float:
        return self.computed_tokens

    @property
    def known_tokens(self) -> int:
        """Prompt and what was generated: all that can be computed now."""
        return self.prompt_tokens + self.generated_tokens

    @property
    def queue_wait_s(self) -> float | None:
        """Arrival to first start; null for what never started."""
        return None if self.first_scheduled_s is None else self.first_scheduled_s - self.arrival_s

    @property
    def prefill_s(self) -> float | None:
        """First start to first token, an eviction in between included (vLLM's definition)."""
        if self.first_token_s is None or self.first_scheduled_s is None:
            return None
        return self.first_token_s - self.first_scheduled_s

    def generate(self, now_s: float) -> "Token":
        """One more token has come out."""
        if self.first_token_s is None:
            self.first_token_s = now_s
        self.last_token_s = now_s
        self.generated_tokens += 1
        done = self.generated_tokens >= self.output_tokens
        return Token(self, self.generated_tokens - 1, done)


@dataclass(slots=True)
class Step:
    """One forward pass: what is computed in it."""

    prefills: list[tuple[Sequence, int]] = field(default_factory=list)
    """Sequences with the number of tokens of their prompt (or recomputation) in this step."""
    decodes: list[Sequence] = field(default_factory=list)
    """Sequences that compute one token each."""
    prefill_tokens: int = 0
    swapped_tokens: int = 0
    """Copied between the card and the host, for evictions and resumptions by swap."""

    @property
    def num_tokens(self) -> int:
        return self.prefill_tokens + len(self.decodes)

    def withdraw(self, seq: Sequence) -> None:
        """Take a victim that was already scheduled back out."""
        if seq in self.decodes:
            self.decodes.remove(seq)
        for entry in [entry for entry in self.prefills if entry[0] is seq]:
            self.prefills.remove(entry)
            self.prefill_tokens -= entry[1]


class Token(NamedTuple):
    """One generated token of `seq`; `position` counts from 0."""

    seq: Sequence
    position: int
    is_last: bool


class Event(NamedTuple):
    """A decision and when the host said it was. What `tokens` and `reason` tell stands beside each kind."""

    t_s: float
    kind: EventKind
    seq: Sequence
    tokens: int = 0
    reason: str | None = None
