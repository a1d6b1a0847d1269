"""The Locust user that replays: one per worker, open loop.

In a locustfile of your own, run with plain `locust`:

    from loadkit.drive.user import ReplayUser

    class Staging(ReplayUser):
        host = "http://127.0.0.1:8000"
        trace = "traces/diurnal-demo.parquet"
        options = ["--speedup", "10x", "--slo", "interactive:ttft:p99:500ms"]
"""

import gc
import logging
import resource
import time
from typing import Any, ClassVar

import gevent
from gevent.event import Event
from locust import User, events, task
from locust.exception import StopUser
from locust.runners import WorkerRunner

from loadkit.drive.conductor import listen
from loadkit.drive.health import Samples, watch_health
from loadkit.drive.plan import Plan
from loadkit.drive.replayer import Replayer
from loadkit.model import RequestRecord

FLUSH_EVERY_S = 0.5
GC_THRESHOLDS = (10_000, 20, 50)
"""What lives here holds few cycles: looking for them often finds nothing."""

log = logging.getLogger(__name__)


class ReplayUser(User):  # type: ignore[misc]  # Locust has no stubs
    """Replays this worker's share of a trace, at the trace's own instants."""

    abstract = True
    trace: ClassVar[str] = ""
    """Path of the trace, for plain `locust`."""
    options: ClassVar[list[str]] = []
    """Further options of `loadkit replay`, for plain `locust`."""

    _replaying: ClassVar[bool] = False

    @task  # type: ignore[untyped-decorator]
    def replay(self) -> None:
        """The one task, begun once. Only the first user of a worker replays."""
        if ReplayUser._replaying:
            log.warning("one ReplayUser replays the whole share of its worker; this one is idle")
            raise StopUser
        ReplayUser._replaying = True
        try:
            _WorkerHalf(self.environment).replay()
            Event().wait()  # until Locust stops its users
        finally:
            ReplayUser._replaying = False


class _WorkerHalf:
    """What one worker does in a replay; the other half is the `Conductor`."""

    def __init__(self, environment: Any) -> None:
        self._runner = environment.runner
        self._environment = environment
        self._share: Any = None
        self._start_s = 0.0
        self._told, self._go = Event(), Event()
        self._rows: list[RequestRecord] = []
        self._replayer: Replayer | None = None
        self._stopped = False
        listen(self._runner, self, ("share", "go", "stop"))

    @property
    def _worker(self) -> int:
        return int(self._runner.worker_index)

    def replay(self) -> None:
        """Ask for a share, replay it, and say that it has ended, in whatever way."""
        error = None
        self._say("hello", {"worker": self._worker})
        try:
            self._told.wait()
            self._replay_share(Plan.from_wire(self._share))
        except Exception as failure:  # it must reach the report: a dead worker is no slow server
            log.exception("worker %d failed", self._worker)
            error = f"worker {self._worker} failed: {type(failure).__name__}: {failure}"
        finally:
            self._flush()
            self._say("ended", {"worker": self._worker, "error": error})

    def _replay_share(self, plan: Plan) -> None:
        _allow_many_sockets()
        replayer = self._replayer = Replayer(plan, self._worker, self._take)
        self._share = None
        gc.collect()
        gc.freeze()  # the plan never dies: keep the collector from walking it during the run
        gc.set_threshold(*GC_THRESHOLDS)
        self._say("ready", {"worker": self._worker})
        self._go.wait()
        helpers = [gevent.spawn(self._flush_often), *watch_health(replayer, self._take_health)]
        try:
            if not self._stopped:
                replayer.run(self._start_s)
        except gevent.GreenletExit:  # stopped in Locust's own UI
            replayer.stop()
            replayer.join()
            raise
        finally:
            gevent.killall(helpers)

    def _take(self, row: RequestRecord) -> None:
        self._rows.append(row)
        _tell_locust(self._environment, row)

    def _take_health(self, now_s: float, samples: Samples) -> None:
        t_s = now_s - self._start_s
        self._say("health", {"worker": self._worker, "t_s": t_s, "samples": samples})

    def _flush_often(self) -> None:
        while True:
            gevent.sleep(FLUSH_EVERY_S)
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._say("rows", {"rows": rows})

    def _say(self, kind: str, data: dict[str, Any]) -> None:
        self._runner.send_message(f"loadkit_{kind}", data)

    def _on_share(self, msg: Any, **_: Any) -> None:
        self._share = msg.data
        self._told.set()

    def _on_go(self, msg: Any, **_: Any) -> None:
        self._start_s = _local_start_s(msg.data)
        self._go.set()

    def _on_stop(self, **_: Any) -> None:
        self._stopped = True
        self._go.set()
        if self._replayer is not None:
            self._replayer.stop()


def _local_start_s(start: dict[str, float]) -> float:
    """The common start on this host's monotonic clock.

    Processes of one host share that clock. Another host's differs by its boot, which wall time bridges.
    """
    on_wall_s = start["unix_s"] - time.clock_gettime(time.CLOCK_REALTIME) + time.monotonic()
    same_host = abs(on_wall_s - start["monotonic_s"]) < 60.0
    return start["monotonic_s"] if same_host else on_wall_s


def _tell_locust(environment: Any, row: RequestRecord) -> None:
    """For Locust's own UI and listeners; its bucketed percentiles are never reported by loadkit."""
    if row.status == "cancelled":
        return
    failure = None if row.status == "ok" else RuntimeError(f"{row.status}: {row.error or ''}")
    for kind, instant_s in (("TTFT", row.first_token_s), ("E2E", row.finished_s)):
        if instant_s is not None or (kind == "E2E" and failure):
            environment.events.request.fire(
                request_type=kind,
                name=row.lane,
                response_time=((instant_s or row.scheduled_s) - row.scheduled_s) * 1e3,
                response_length=row.output_tokens or 0,
                exception=failure if kind == "E2E" else None,
                context={"tenant": row.tenant, "request_id": row.request_id},
            )


def _allow_many_sockets() -> None:
    """Raise the limit of open files as far as the system lets us: one stream is one socket."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def _start_under_plain_locust(environment: Any, **_: Any) -> None:
    from loadkit.drive.attached import attach  # noqa: PLC0415  (it is not needed under `loadkit replay`)

    users = [c for c in environment.user_classes if issubclass(c, ReplayUser) and c.trace]
    if users and not isinstance(environment.runner, WorkerRunner):
        attach(environment, users[0])
