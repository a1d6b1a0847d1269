"""What a slot pool works on: jobs that hold one slot for a known time."""

from dataclasses import dataclass

NEVER_S = float("inf")


@dataclass(slots=True, eq=False)
class Job:
    """One request of a slot pool. The host fills the first block, the pool the rest.

    Policies see the service time as the job's size where tokens are not known: at this level the
    question is who waits for whom, not how well a length can be guessed.
    """

    number: int
    """Order of arrival; breaks every tie."""
    arrival_s: float
    service_s: float
    lane: str = "interactive"
    tenant: str | None = None
    priority: int = 0
    deadline_s: float | None = None
    tokens: int | None = None
    """Prompt + max_tokens, where known."""

    state: str = "new"
    left_s: float = 0.0
    """Service still to come at its latest start, recovery included."""
    started_s: float = 0.0
    first_scheduled_s: float | None = None
    ends_s: float = NEVER_S
    ended_s: float | None = None
    preemptions: int = 0
    recovery_s: float = 0.0
    """Slot time spent on recovering from evictions."""
    refusal: str | None = None
    retry_after_s: float | None = None
    timeout_s: float = NEVER_S
    """Instant at which it is dropped from the queue, and why."""
    timeout_reason: str | None = None
    fair_tag: float = 0.0
    guess: float = 0.0

    @property
    def queue_wait_s(self) -> float | None:
        """Arrival to first start; null for what never started."""
        return None if self.first_scheduled_s is None else self.first_scheduled_s - self.arrival_s

    @property
    def work(self) -> float:
        return self.service_s if self.tokens is None else self.tokens

    @property
    def fixed_work(self) -> float:
        return 0.0

    @property
    def open_work(self) -> float:
        return self.service_s

    @property
    def expected_left(self) -> float:
        """All running jobs lose service at one speed, so the later end has more left."""
        return self.ends_s

    @property
    def kv_tokens(self) -> float:
        return 0.0 if self.tokens is None else self.tokens
