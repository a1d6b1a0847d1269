"""The open-loop replayer of one worker: every request at its absolute instant, whatever the server does.

Knows gevent, not Locust. Time is absolute throughout, so that no lateness accumulates.
"""

import logging
import os
import time
from collections.abc import Callable

import gevent

from loadkit.drive.connection import Connection, Response
from loadkit.drive.crew import Crew
from loadkit.drive.dial import ConnectError
from loadkit.drive.exchange import AnswerReader, Instants, RequestWriter, record, unsent_record
from loadkit.drive.plan import Plan
from loadkit.drive.pool import ConnectionPool
from loadkit.engines import secrets, without_secrets
from loadkit.model import RequestRecord, Send, Status

PREPARE_AHEAD_S = 0.5
"""A request's body and connection are made ready this long before it is due."""
PREPARE_BATCH_S = 0.05
"""Requests due within so much of each other are made ready together: work on warm caches costs a fraction."""
DEFAULT_RETRY_PAUSE_S = 1.0
"""Doubled with each attempt; used where a refusal carries no Retry-After."""
KEEP_ALIVE_RACE_S = 1.0
"""A used-up connection shows within a round trip; later than this the server had the request."""

log = logging.getLogger(__name__)

Sink = Callable[[RequestRecord], None]


class Replayer:
    """Offers the requests of one plan and hands a record of each to `sink`. Use once."""

    def __init__(self, plan: Plan, worker: int, sink: Sink) -> None:
        self._plan = plan
        self._worker = worker
        self._sink = sink
        self._writer = RequestWriter(plan)
        self._pool = ConnectionPool(plan.target)
        self._secrets = secrets(plan.target, os.environ)
        self._requests = Crew()
        self._busy: set[Connection] = set()
        self._children: dict[str, list[Send]] = {}
        self._stopping = False
        self.start_s = 0.0
        self.sent = 0
        self.in_flight = 0

    def run(self, start_s: float) -> None:
        """Replay from `start_s` (monotonic) until every request has ended, or until `stop`."""
        self.start_s = start_s
        roots = self._roots()
        for send in roots:
            if time.monotonic() - start_s < send.scheduled_s - PREPARE_AHEAD_S - PREPARE_BATCH_S:
                self._sleep_until(send.scheduled_s - PREPARE_AHEAD_S)
            if self._stopping:
                break
            self._requests.spawn(self._offer, send, send.scheduled_s)
        self.join()

    def join(self) -> None:
        """Wait for every request that was begun; each is bounded by its time-out."""
        self._requests.join()
        self._pool.close()

    def stop(self) -> None:
        """Send nothing more and cancel what is in flight; `run` then returns soon."""
        self._stopping = True
        for connection in list(self._busy):
            connection.cancel()

    def _roots(self) -> list[Send]:
        """Requests that wait for nobody; the others are filed under their parent."""
        roots = []
        for send in self._plan.sends:
            if send.parent_id is None:
                roots.append(send)
            else:
                self._children.setdefault(send.parent_id, []).append(send)
        return roots

    def _offer(self, send: Send, due_s: float) -> None:
        """The life of one request. A fault of our own is a row that makes the run invalid."""
        try:
            self._live(send, due_s)
        except Exception as fault:
            log.exception("request %s", send.request_id)
            words = f"loadkit failed: {type(fault).__name__}: {fault}"
            self._sink(unsent_record(send, due_s, "dropped", words[:300]))

    def _live(self, send: Send, due_s: float) -> None:
        """From preparation to the release of its follow-ups."""
        deadline_in_s = None if send.deadline_s is None else send.deadline_s - due_s
        request = self._writer.request(send, deadline_in_s)
        self._pool.reserve()
        self._sleep_until(due_s)
        if self._stopping:
            return
        for attempt in range(1 + self._plan.retries):
            ended = self._attempt(send, due_s, request)
            ended = self._clean(ended)
            self._sink(
                ended._replace(attempt=attempt, worker=self._worker, target=self._plan.target.url)
            )
            if ended.status != "rejected" or attempt == self._plan.retries or self._stopping:
                break
            again_s = (ended.finished_s or due_s) + _pause_s(ended, attempt)
            if again_s >= due_s + self._plan.timeout_s:
                break  # nobody waits that long: the refusal is how it ended
            self._sleep_until(again_s)
            self._pool.reserve()
        self._release_children(send, ended.finished_s or due_s)

    def _clean(self, row: RequestRecord) -> RequestRecord:
        """Servers quote the key that they refuse: it must not reach a file."""
        if row.error is None or not self._secrets:
            return row
        return row._replace(error=without_secrets(row.error, self._secrets))

    def _attempt(self, send: Send, due_s: float, request: bytes) -> RequestRecord:
        cap = self._plan.max_in_flight
        if cap is not None and self.in_flight >= cap:
            self._pool.forgo()
            return unsent_record(send, due_s, "dropped", f"in-flight cap of {cap} reached")
        self.in_flight += 1
        self.sent += 1
        try:
            return self._exchange(send, due_s, request)
        finally:
            self.in_flight -= 1

    def _exchange(self, send: Send, due_s: float, request: bytes) -> RequestRecord:
        try:
            response, connect_s, body = self._converse(request, due_s)
        except ConnectError as error:
            failed_s = time.monotonic() - self.start_s
            status = self._unconnected(error, due_s)
            return unsent_record(send, due_s, status, str(error), finished_s=failed_s)
        return record(send, Instants(due_s, connect_s, self.start_s), response, body)

    def _unconnected(self, error: ConnectError, due_s: float) -> Status:
        if self._stopping:
            return "cancelled"
        if self._left_s(due_s) <= 0:
            return "timeout"
        return "dropped" if error.ours else "error"

    def _converse(
        self, request: bytes, due_s: float
    ) -> tuple[Response, float | None, AnswerReader]:
        """The response, the seconds spent on opening a connection for it, and its body.

        An idle connection may be closed by the server in the very moment it is used; then once more
        on a fresh one. Raises ConnectError.
        """
        connection, connect_s = self._pool.acquire(self._left_s(due_s))
        response, body = self._exchange_on(connection, request, due_s)
        if connect_s is None and _closed_at_once(response) and not self._stopping:
            connection, connect_s = self._pool.open(self._left_s(due_s))
            response, body = self._exchange_on(connection, request, due_s)
        return response, connect_s, body

    def _exchange_on(
        self, connection: Connection, request: bytes, due_s: float
    ) -> tuple[Response, AnswerReader]:
        body = AnswerReader(self._plan.target.api)
        left_s = self._left_s(due_s)
        if self._stopping or left_s <= 0:  # connecting took too long: nothing is sent any more
            self._pool.release(connection)
            raise ConnectError("connect: no time was left for the request")
        self._busy.add(connection)
        try:
            return connection.exchange(request, left_s, body), body
        finally:
            self._busy.discard(connection)
            self._pool.release(connection)

    def _left_s(self, due_s: float) -> float:
        return self.start_s + due_s + self._plan.timeout_s - time.monotonic()

    def _release_children(self, send: Send, finished_s: float) -> None:
        """A follow-up is due at its own instant or, if its parent was slow, when that ended + think."""
        for child in self._children.pop(send.request_id, ()):
            due_s = max(child.scheduled_s, finished_s + (child.think_s or 0.0))
            self._requests.spawn(self._offer_later, child, due_s)

    def _offer_later(self, send: Send, due_s: float) -> None:
        self._sleep_until(due_s - PREPARE_AHEAD_S)
        if not self._stopping:
            self._offer(send, due_s)

    def _sleep_until(self, instant_s: float) -> None:
        """Returns early only when stopping."""
        while not self._stopping:
            left_s = self.start_s + instant_s - time.monotonic()
            if left_s <= 0:
                return
            gevent.sleep(min(left_s, 1.0))


def _pause_s(refused: RequestRecord, attempt: int) -> float:
    if refused.retry_after_s is not None:
        return refused.retry_after_s
    return DEFAULT_RETRY_PAUSE_S * 2.0**attempt


def _closed_at_once(response: Response) -> bool:
    if response.error in (None, "timeout", "cancelled") or response.first_byte_s is not None:
        return False
    return (response.finished_s or 0.0) - response.sent_s < KEEP_ALIVE_RACE_S
