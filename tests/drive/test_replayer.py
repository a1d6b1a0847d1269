"""The replayer of one worker against scripted peers: what becomes of requests that go wrong."""

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gevent.socket
import pytest

from loadkit.drive.plan import Plan
from loadkit.drive.replayer import Replayer
from loadkit.model import RequestRecord, Send, Target
from loadkit.prompts import Calibration

Script = Callable[[socket.socket], None]
Serve = Callable[[Script], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Run a script for every accepted connection; gives the port."""
    listeners: list[socket.socket] = []

    def start(script: Script) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def one(peer: socket.socket) -> None:
            with peer, contextlib.suppress(OSError):  # some tests want the client to hang up
                peer.settimeout(5)
                script(peer)

        def run() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(peer,), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        port: int = listener.getsockname()[1]
        return port

    yield start
    for listener in listeners:
        listener.close()


def replayer(
    port: int, sends: Sequence[Send], **options: Any
) -> tuple[Replayer, list[RequestRecord]]:
    rows: list[RequestRecord] = []
    plan = Plan(
        sends=sends,
        target=Target(f"http://127.0.0.1:{port}", model="m", **options.pop("target", {})),
        engine="openai",
        model="m",
        calibration=Calibration("text"),
        salt="s",
        **{"timeout_s": 5.0, **options},
    )
    return Replayer(plan, 0, rows.append), rows


def replayed(port: int, sends: Sequence[Send], **options: Any) -> list[RequestRecord]:
    one, rows = replayer(port, sends, **options)
    one.run(time.monotonic())
    return rows


def send(name: str = "r", at_s: float = 0.0, **more: Any) -> Send:
    return Send(name, at_s, "interactive", 10, 3, **more)


def refusing(retry_after: bytes) -> Script:
    def script(peer: socket.socket) -> None:
        while peer.recv(65536):
            peer.sendall(
                b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: "
                + retry_after
                + b"\r\nContent-Length: 2\r\n\r\n{}"
            )

    return script


def test_a_connection_that_ends_without_a_word_is_told_as_that(serve: Serve) -> None:
    def hang_up(peer: socket.socket) -> None:
        peer.recv(65536)

    [row] = replayed(serve(hang_up), [send()])

    assert (row.status, row.error) == ("error", "connection closed by the server")


def test_a_retry_that_would_come_after_the_time_out_is_not_waited_for(serve: Serve) -> None:
    begun_s = time.monotonic()

    rows = replayed(serve(refusing(b"3600")), [send()], retries=3)

    assert [row.status for row in rows] == ["rejected"]
    assert time.monotonic() - begun_s < 2.0


def test_retry_after_zero_is_honoured(serve: Serve) -> None:
    begun_s = time.monotonic()

    rows = replayed(serve(refusing(b"0")), [send()], retries=2)

    assert [row.attempt for row in rows] == [0, 1, 2]
    assert time.monotonic() - begun_s < 0.9


@pytest.mark.parametrize(
    ("code", "status"), [(errno.EMFILE, "dropped"), (errno.ECONNREFUSED, "error")]
)
def test_running_out_of_sockets_is_not_blamed_on_the_server(
    monkeypatch: pytest.MonkeyPatch, code: int, status: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, "")

    monkeypatch.setattr("loadkit.drive.dial._connected_socket", fail)

    [row] = replayed(9, [send()])

    assert row.status == status
    assert row.sent_s is None


def slow_connect(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Names resolve late: what a full backlog or a slow handshake is for a request."""
    real = gevent.socket.getaddrinfo

    def resolve(*arguments: Any) -> Any:
        gevent.sleep(seconds)
        return real(*arguments)

    monkeypatch.setattr("loadkit.drive.dial.getaddrinfo", resolve)


def test_connecting_counts_towards_the_time_out(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_connect(monkeypatch, 3.0)
    begun_s = time.monotonic()

    [row] = replayed(serve(refusing(b"1")), [send()], timeout_s=0.3)

    assert (row.status, row.sent_s) == ("timeout", None)
    assert time.monotonic() - begun_s < 1.5


def test_a_request_that_is_connecting_when_the_run_is_stopped_is_never_sent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_connect(monkeypatch, 0.5)
    asked: list[bytes] = []
    one, rows = replayer(serve(lambda peer: asked.append(peer.recv(65536))), [send()])
    gevent.spawn_later(0.2, one.stop)

    one.run(time.monotonic())

    assert [(row.status, row.sent_s) for row in rows] == [("cancelled", None)]
    assert asked in ([], [b""])


def test_a_key_that_the_server_repeats_reaches_no_row(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-secret-4242")
    said = b'{"error":{"message":"bad key Bearer sk-secret-4242, go away"}}'

    def refuse(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))

    [row] = replayed(serve(refuse), [send()], target={"api_key_env": "THE_KEY"})

    assert row.error == "HTTP 401: bad key Bearer ***, go away"
