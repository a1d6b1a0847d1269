"""A pool of equal slots, without a clock: says who starts, who is evicted, who is refused.

The host tells what happens and when: `arrive`, `leave_ended`, then `decide`. One slot serves one job
at a time; what happens inside a slot is the token-level `Scheduler`'s business.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from loadkit.core.entrance import Entrance
from loadkit.core.jobs import NEVER_S, Job
from loadkit.core.orders import is_deferrable
from loadkit.core.policies import Policy
from loadkit.core.room import check_headroom


class SlotPool:
    """Decides for `slots` slots under a policy. An eviction costs its victim `recovery_s` of service.

    Raises ValueError for headroom that is not in slots, or leaves none to batch.
    """

    def __init__(
        self,
        policy: Policy,
        slots: int,
        recovery_s: float = 0.0,
        snap: Callable[[float], float] | None = None,
    ) -> None:
        if policy.headroom and policy.headroom.unit != "slots":
            raise ValueError("a slot pool has no KV cache: give headroom in slots")
        check_headroom(policy.headroom, slots)
        self.policy = policy
        self.slots = slots
        self.free = slots
        self.preemptions = 0
        self.entrance: Entrance[Job] = Entrance(policy)
        self.waiting = self.entrance.waiting
        self._recovery_s = recovery_s
        self._snap = snap
        """Rounds an instant to the host's grid."""
        self._reserve = policy.headroom.amount if policy.headroom else 0
        self._batch: dict[Job, None] = {}
        """Running jobs of deferrable lanes in the order they started."""
        self._ends: list[tuple[float, int, Job]] = []

    @property
    def next_end_s(self) -> float:
        """When the next running job ends, as far as is decided; infinite when none runs."""
        ends = self._ends
        while ends and ends[0][0] != ends[0][2].ends_s:
            heappop(ends)  # evicted since
        return ends[0][0] if ends else NEVER_S

    def arrive(self, job: Job, now_s: float) -> None:
        """Queue it, or refuse it: `job.state` says which."""
        job.left_s = job.service_s
        running = self.slots - self.free
        if self.entrance.refusal(job, now_s, running, self.free, 0):
            job.state, job.ended_s = "rejected", now_s
            return
        job.state = "waiting"
        self.entrance.queue(job, now_s)

    def leave_ended(self, now_s: float) -> None:
        """Free the slots of jobs that end by `now_s`."""
        ends = self._ends
        while ends and ends[0][0] <= now_s:
            end_s, _, job = heappop(ends)
            if job.ends_s != end_s:
                continue  # evicted since
            job.state, job.ended_s, job.ends_s = "finished", end_s, NEVER_S
            self.free += 1
            self._batch.pop(job, None)
            self.entrance.ended(job, now_s, job.service_s)

    def decide(self, now_s: float) -> None:
        """Drop what has waited too long, evict for the urgent, start whoever may."""
        waiting, policy = self.waiting, self.policy
        if not waiting:
            return
        if self.entrance.times_out:
            self._expire(now_s)
        if policy.static and self.free < self.slots:
            return
        if policy.preemption and waiting.urgent_size > self.free:
            self._evict(waiting.urgent_size - self.free, now_s)
        while self.free:
            batch_first = len(self._batch) < policy.floor
            job = waiting.choose(
                now_s, batch_first=batch_first, batch_may=self.free > self._reserve
            )
            if job is None:
                return
            self._start(job, now_s)

    def _start(self, job: Job, now_s: float) -> None:
        self.waiting.take(job)
        job.state = "running"
        job.started_s = now_s
        if job.first_scheduled_s is None:
            job.first_scheduled_s = now_s
            if self.entrance.admits:
                self.entrance.started(job, now_s)
        end_s = now_s + job.left_s
        job.ends_s = end_s = self._snap(end_s) if self._snap else end_s
        self.free -= 1
        heappush(self._ends, (end_s, job.number, job))
        if is_deferrable(job.lane):
            self._batch[job] = None

    def _evict(self, wanted: int, now_s: float) -> None:
        """Take slots from batch; each victim goes to the head of its lane with its rest and the cost."""
        assert self.policy.preemption
        order, head = self.policy.order, self.waiting.best(self.waiting.urgent, now_s)
        assert head
        key = order(head)
        batch = [job for job in self._batch if order(job) > key]  # nobody yields to the less urgent
        count = min(wanted, max(0, len(self._batch) - self.policy.floor))
        for job in self.policy.preemption.victims(batch, count, now_s):
            job.left_s = job.ends_s - now_s + self._recovery_s
            job.recovery_s += self._recovery_s
            job.ends_s = NEVER_S
            job.preemptions += 1
            job.state = "waiting"
            job.timeout_s = NEVER_S  # what has begun is finished
            del self._batch[job]
            self.free += 1
            self.preemptions += 1
            self.waiting.put_back(job)

    def _expire(self, now_s: float) -> None:
        while job := self.entrance.overdue(now_s):
            job.state, job.ended_s = "expired", now_s
            self.waiting.left(job)
            self.entrance.gave_up(job)
