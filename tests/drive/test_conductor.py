"""The conductor with a runner that only notes what is sent: a worker that fails ends the replay."""

from types import SimpleNamespace
from typing import Any

import gevent

from loadkit.drive.conductor import Conductor
from loadkit.drive.plan import Plan
from loadkit.model import Target
from loadkit.prompts import Calibration

PLAN = Plan((), Target("http://127.0.0.1:9"), "openai", "m", Calibration("text"), "s", 5.0)


class NotingRunner:
    def __init__(self) -> None:
        self.custom_messages: dict[str, Any] = {}
        self.sent: list[tuple[str, str]] = []

    def register_message(self, name: str, listener: Any) -> None:
        self.custom_messages[name] = listener

    def send_message(self, name: str, _data: Any, client_id: str) -> None:
        self.sent.append((name, client_id))

    def hear(self, kind: str, node: str, **data: Any) -> None:
        self.custom_messages[f"loadkit_{kind}"](SimpleNamespace(node_id=node, data=data))


class NotingLink:
    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def on_stop(self, _callback: Any) -> None: ...

    def receive(self) -> dict[str, Any]:
        return {"plan": PLAN.to_wire()}

    def send(self, frame: dict[str, Any]) -> None:
        self.said.append(frame)


def test_a_worker_that_fails_before_it_is_ready_ends_the_replay() -> None:
    runner, link = NotingRunner(), NotingLink()
    conductor = Conductor(SimpleNamespace(runner=runner), link, 2)  # type: ignore[arg-type]
    replay = gevent.spawn(conductor.run)
    gevent.sleep(0)
    runner.hear("hello", "a", worker=0)
    runner.hear("hello", "b", worker=1)
    runner.hear("ended", "a", worker=0, error="worker 0 failed: its key is not set")
    runner.hear("ready", "b", worker=1)
    runner.hear("ended", "b", worker=1, error=None)

    replay.join(timeout=3)

    assert replay.ready()
    assert [frame["type"] for frame in link.said] == ["event", "start", "end"]
    assert ("loadkit_stop", "b") in runner.sent
