"""The half of a distributed replay that runs beside Locust's master (or in its one local process).

Deals the plan out to the workers, lets all start at one instant, passes their rows on to the command
and says when everything has ended. Uses Locust's own messages, so it works over hosts as Locust does.
"""

from typing import Any

from gevent.event import Event
from locust.env import Environment
from locust.runners import STATE_MISSING, MasterRunner

from loadkit.clock import Anchor
from loadkit.drive.link import Link
from loadkit.drive.plan import Plan
from loadkit.schedule import shard

START_AFTER_S = 0.7
"""From the word to the first instant: longer than a message takes, and than requests are prepared ahead."""
WATCH_EVERY_S = 0.5


class Conductor:
    """One replay. Call `run` in a greenlet once the runner has started its users."""

    def __init__(self, environment: Environment, link: Link, workers: int) -> None:
        self._runner = environment.runner
        self._link = link
        self._workers = workers
        self._hello: dict[str, int] = {}
        """Worker index by Locust's node id."""
        self._ready: set[str] = set()
        self._ended: set[str] = set()
        self._stopped = False
        self._changed = Event()
        listen(self._runner, self, ("hello", "ready", "rows", "health", "ended"))
        link.on_stop(self.stop)

    def run(self) -> None:
        """Returns when every worker has ended or is lost."""
        frame = self._link.receive()
        plan = Plan.from_wire(frame["plan"])
        self._wait_for(self._hello)
        for index, node in enumerate(sorted(self._hello, key=lambda n: self._hello[n])):
            share = plan.share(shard(plan.sends, len(self._hello))[index], len(self._hello))
            self._say("share", share.to_wire(), node)
        self._wait_for(self._ready)
        now = Anchor.now()
        start = {
            "monotonic_s": now.monotonic_s + START_AFTER_S,
            "unix_s": now.unix_s + START_AFTER_S,
        }
        self._link.send({"type": "start", "workers": len(self._hello), **start})
        for node in self._hello:
            self._say("go", start, node)
        self._wait_for(self._ended)
        self._link.send({"type": "end"})

    def stop(self) -> None:
        """At any time: a worker that says hello later is told then."""
        self._stopped = True
        for node in self._hello:
            self._say("stop", None, node)

    def _say(self, kind: str, data: Any, node: str) -> None:
        self._runner.send_message(f"loadkit_{kind}", data, client_id=node)

    def _wait_for(self, nodes: Any) -> None:
        """Until each worker is among `nodes`. A lost one is reported, and ends the replay."""
        while len(nodes) < self._workers:
            self._changed.wait(WATCH_EVERY_S)
            self._changed.clear()
            self._look_for_lost()

    def _look_for_lost(self) -> None:
        if not isinstance(self._runner, MasterRunner):
            return
        clients = self._runner.clients
        mute = [n for n, c in clients.items() if n not in self._hello and c.state == STATE_MISSING]
        for node in mute:
            del clients[node]
            self._workers -= 1
            self._fail("a worker was lost before it began")
        for node in set(self._hello) - self._ended:
            if node not in clients or clients[node].state == STATE_MISSING:
                self._lost(node)

    def _lost(self, node: str) -> None:
        self._ready.add(node)
        self._ended.add(node)
        self._fail(f"worker {self._hello[node]} lost")

    def _fail(self, what: str) -> None:
        self._link.send({"type": "event", "what": what, "fatal": True})
        self.stop()

    def _note(self, nodes: set[str], node: str) -> None:
        nodes.add(node)
        self._changed.set()

    def _on_hello(self, msg: Any, **_: Any) -> None:
        self._hello[msg.node_id] = msg.data["worker"]
        if self._stopped:
            self._say("stop", None, msg.node_id)
        self._changed.set()

    def _on_ready(self, msg: Any, **_: Any) -> None:
        self._note(self._ready, msg.node_id)

    def _on_rows(self, msg: Any, **_: Any) -> None:
        self._link.send({"type": "rows", "rows": msg.data["rows"]})

    def _on_health(self, msg: Any, **_: Any) -> None:
        self._link.send({"type": "health", **msg.data})

    def _on_ended(self, msg: Any, **_: Any) -> None:
        if msg.data.get("error"):
            self._fail(msg.data["error"])
        self._ready.add(msg.node_id)  # it may have failed before that
        self._note(self._ended, msg.node_id)


def listen(runner: Any, listener: object, kinds: tuple[str, ...]) -> None:
    """Call `listener._on_KIND` for each message of a kind, in place of any earlier listener."""
    for kind in kinds:
        runner.custom_messages.pop(f"loadkit_{kind}", None)
        runner.register_message(f"loadkit_{kind}", getattr(listener, f"_on_{kind}"))
