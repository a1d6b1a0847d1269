"""One HTTP connection against scripted peers: real sockets, a real thread, exact bytes."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import gevent
import pytest
import trustme

from loadkit.drive.connection import MAX_RESPONSE_BYTES, Connection, Response
from loadkit.drive.dial import ConnectError, open_connection

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
Script = Callable[[socket.socket], None]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Start a peer that runs one script per accepted connection; gives its port."""
    listeners: list[socket.socket] = []

    def start(
        *scripts: Script, wrap: Callable[[socket.socket], socket.socket] | None = None
    ) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            for script in scripts:
                peer, _ = listener.accept()
                peer.settimeout(5)
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    peer = wrap(peer) if wrap else peer
                    script(peer)
                except (OSError, ssl.SSLError):
                    pass  # the client hung up, which some tests want
                finally:
                    peer.close()

        threading.Thread(target=run, daemon=True).start()
        port: int = listener.getsockname()[1]
        return port

    yield start
    for listener in listeners:
        listener.close()


def read_request(peer: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += peer.recv(65536)
    return data


def answering(*pieces: bytes | float) -> Script:
    """Send the pieces after a request; a float is a pause in seconds."""

    def script(peer: socket.socket) -> None:
        read_request(peer)
        for piece in pieces:
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                peer.sendall(piece)

    return script


@dataclass
class Heard:
    """One answer with its body."""

    response: Response
    stamps_s: list[float]
    pieces: list[bytes]

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


class Ear:
    """Keeps every piece of a body as it came."""

    def __init__(self) -> None:
        self.stamps_s: list[float] = []
        self.pieces: list[bytes] = []

    def begin(self, _: Mapping[str, str]) -> Callable[[float, bytes], None]:
        return self.take

    def take(self, stamp_s: float, data: bytes) -> None:
        self.stamps_s.append(stamp_s)
        self.pieces.append(data)


def ask(connection: Connection, request: bytes = REQUEST, timeout_s: float = 5.0) -> Heard:
    body = Ear()
    response = connection.exchange(request, timeout_s, body)
    return Heard(response, body.stamps_s, body.pieces)


def exchange(port: int, timeout_s: float = 5.0) -> tuple[Heard, Connection]:
    connection = open_connection("127.0.0.1", port, None, 5.0)
    return ask(connection, timeout_s=timeout_s), connection


def test_a_chunked_stream_arrives_whole_with_a_stamp_for_each_piece(
    serve: Callable[..., int],
) -> None:
    pause_s = 0.05
    pieces: list[bytes | float] = [
        CHUNKED,
        chunk(b"data: a\n\n"),
        pause_s,
        chunk(b"data: b\n\n"),
        pause_s,
        b"0\r\n\r\n",
    ]

    heard, connection = exchange(serve(answering(*pieces)))

    assert heard.body == b"data: a\n\ndata: b\n\n"
    assert (heard.response.status, heard.response.complete, heard.response.error) == (
        200,
        True,
        None,
    )
    assert heard.response.headers["content-type"] == "text/event-stream"
    first_s, second_s = heard.stamps_s
    assert heard.response.sent_s <= first_s
    assert second_s - first_s == pytest.approx(pause_s, abs=0.02)
    assert heard.response.finished_s is not None
    assert heard.response.finished_s - second_s == pytest.approx(pause_s, abs=0.02)
    connection.close()


def test_bytes_that_come_one_by_one_give_the_same_body(serve: Callable[..., int]) -> None:
    wire = CHUNKED + chunk("data: é\n\n".encode()) + b"0\r\n\r\n"

    heard, _ = exchange(serve(answering(*(wire[i : i + 1] for i in range(len(wire))))))

    assert heard.body == "data: é\n\n".encode()
    assert heard.response.complete


def test_the_stamp_is_the_kernels_not_that_of_a_busy_client(serve: Callable[..., int]) -> None:
    """The loop is blocked for 0.2 s while the bytes wait in the kernel."""
    sent_at: list[float] = []

    def script(peer: socket.socket) -> None:
        read_request(peer)
        time.sleep(0.05)
        sent_at.append(time.monotonic())
        peer.sendall(HEAD + b"Content-Length: 2\r\n\r\nok")
        time.sleep(0.5)

    connection = open_connection("127.0.0.1", serve(script), None, 5.0)
    gevent.spawn_later(0.02, time.sleep, 0.2)
    heard = ask(connection)

    assert heard.response.first_byte_s is not None
    assert heard.response.first_byte_s - sent_at[0] < 0.05


def test_a_connection_is_kept_and_used_again(serve: Callable[..., int]) -> None:
    def twice(peer: socket.socket) -> None:
        for answer in (b"one", b"two"):
            read_request(peer)
            peer.sendall(HEAD + b"Content-Length: 3\r\n\r\n" + answer)
        time.sleep(0.2)

    connection = open_connection("127.0.0.1", serve(twice), None, 5.0)

    assert [ask(connection).body for _ in range(2)] == [b"one", b"two"]
    assert not connection.dead
    connection.close()


def test_connection_close_ends_the_connection(serve: Callable[..., int]) -> None:
    heard, connection = exchange(
        serve(answering(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"))
    )

    assert (heard.body, heard.response.complete, connection.dead) == (b"ok", True, True)


def test_a_body_without_framing_ends_with_the_connection(serve: Callable[..., int]) -> None:
    heard, _ = exchange(serve(answering(HEAD + b"\r\n", b"data: a\n\n")))

    assert (heard.body, heard.response.complete, heard.response.error) == (
        b"data: a\n\n",
        True,
        None,
    )


def test_a_framed_body_that_is_cut_is_not_complete(serve: Callable[..., int]) -> None:
    heard, connection = exchange(serve(answering(CHUNKED, chunk(b"data: a\n\n"))))

    assert (heard.body, heard.response.complete) == (b"data: a\n\n", False)
    assert heard.response.error == "connection closed by the server"
    assert connection.dead


def test_a_reset_keeps_what_had_arrived(serve: Callable[..., int]) -> None:
    def reset(peer: socket.socket) -> None:
        answering(CHUNKED, chunk(b"data: a\n\n"))(peer)
        time.sleep(0.1)  # let it arrive: a reset discards what is still under way
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    heard, _ = exchange(serve(reset))

    assert heard.body == b"data: a\n\n"
    assert heard.response.error == "Connection reset by peer"


def test_a_late_answer_is_a_timeout_with_what_had_arrived(serve: Callable[..., int]) -> None:
    began_s = time.monotonic()

    heard, connection = exchange(
        serve(answering(CHUNKED, chunk(b"data: a\n\n"), 3.0)), timeout_s=0.3
    )

    assert (heard.response.error, heard.body) == ("timeout", b"data: a\n\n")
    assert time.monotonic() - began_s < 2.0
    assert connection.dead


def test_bytes_that_are_no_http_are_an_error_not_a_crash(serve: Callable[..., int]) -> None:
    heard, _ = exchange(serve(answering(b"\x00\x01 nonsense\r\n\r\n")))

    assert heard.response.error is not None
    assert "malformed response" in heard.response.error


def test_an_endless_body_is_bounded(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadkit.drive.connection.MAX_RESPONSE_BYTES", 1 << 20)
    assert MAX_RESPONSE_BYTES > 1 << 20

    heard, _ = exchange(serve(answering(CHUNKED, *[chunk(b"x" * 65536)] * 64)))

    assert heard.response.error is not None
    assert heard.response.error.startswith("response over")


def test_endless_headers_are_bounded(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadkit.drive.connection.MAX_RESPONSE_BYTES", 1 << 20)

    heard, _ = exchange(serve(answering(HEAD, *[b"X-More: " + b"x" * 65536 + b"\r\n"] * 64)))

    assert heard.response.error is not None
    assert heard.response.error.startswith("response over")


def test_what_follows_a_complete_response_does_not_change_it(serve: Callable[..., int]) -> None:
    second = b"HTTP/1.1 500 Oops\r\nX-Second: 1\r\nContent-Length: 3\r\n\r\nbad"

    heard, _ = exchange(serve(answering(HEAD + b"Content-Length: 2\r\n\r\nok" + second)))

    assert (heard.response.status, heard.body) == (200, b"ok")
    assert "x-second" not in heard.response.headers


def test_an_interim_response_is_passed_over(serve: Callable[..., int]) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"

    heard, _ = exchange(serve(answering(interim + HEAD + b"Content-Length: 2\r\n\r\nok")))

    assert (heard.response.status, heard.body) == (200, b"ok")


def test_a_peer_that_closes_an_idle_connection_is_noticed(serve: Callable[..., int]) -> None:
    _, connection = exchange(serve(answering(HEAD + b"Content-Length: 2\r\n\r\nok")))
    gevent.sleep(0.1)

    assert connection.dead


def test_a_large_request_goes_out_whole(serve: Callable[..., int]) -> None:
    size = 8 << 20
    got: list[int] = []

    def script(peer: socket.socket) -> None:
        received = len(read_request(peer))
        while received < size:
            time.sleep(0.001)
            received += len(peer.recv(1 << 20))
        got.append(received)
        peer.sendall(HEAD + b"Content-Length: 2\r\n\r\nok")

    head = b"POST / HTTP/1.1\r\nHost: x\r\n\r\n"
    connection = open_connection("127.0.0.1", serve(script), None, 5.0)
    heard = ask(connection, head + b"x" * (size - len(head)), 10.0)

    assert (got, heard.body) == ([size], b"ok")


def test_a_refused_connection_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(ConnectError, match="Connection refused"):
        open_connection("127.0.0.1", port, None, 5.0)


def test_a_name_that_does_not_resolve_says_so() -> None:
    with pytest.raises(ConnectError, match="connect: "):
        open_connection("no-such-host.invalid", 80, None, 5.0)


@pytest.fixture
def tls_server() -> tuple[trustme.CA, Callable[[socket.socket], socket.socket]]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return authority, lambda peer: context.wrap_socket(peer, server_side=True)


def test_a_stream_over_tls_is_read_the_same_way(
    serve: Callable[..., int],
    tls_server: tuple[trustme.CA, Callable[[socket.socket], socket.socket]],
) -> None:
    authority, wrap = tls_server
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    port = serve(
        answering(CHUNKED, chunk(b"data: a\n\n"), 0.05, chunk(b"x" * 100_000), b"0\r\n\r\n"),
        wrap=wrap,
    )

    heard = ask(open_connection("127.0.0.1", port, trusting, 5.0))

    assert heard.body == b"data: a\n\n" + b"x" * 100_000
    assert heard.response.complete
    assert heard.stamps_s[1] - heard.stamps_s[0] == pytest.approx(0.05, abs=0.02)


def test_a_tls_connection_opened_ahead_outlives_the_session_tickets(
    serve: Callable[..., int],
    tls_server: tuple[trustme.CA, Callable[[socket.socket], socket.socket]],
) -> None:
    authority, wrap = tls_server
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    port = serve(answering(CHUNKED, chunk(b"data: a\n\n"), b"0\r\n\r\n"), wrap=wrap)

    connection = open_connection("127.0.0.1", port, trusting, 5.0)
    gevent.sleep(0.2)  # TLS 1.3 servers send tickets right after the handshake

    assert not connection.dead
    assert ask(connection).body == b"data: a\n\n"


def test_an_untrusted_certificate_is_named_as_the_cause(
    serve: Callable[..., int],
    tls_server: tuple[trustme.CA, Callable[[socket.socket], socket.socket]],
) -> None:
    port = serve(answering(b""), wrap=tls_server[1])

    with pytest.raises(ConnectError, match="certificate"):
        open_connection("127.0.0.1", port, ssl.create_default_context(), 5.0)


def test_a_fault_of_who_reads_the_body_is_raised_where_it_can_be_told(
    serve: Callable[..., int],
) -> None:
    class Broken(Ear):
        def take(self, *_: object) -> None:
            raise ZeroDivisionError

    port = serve(answering(CHUNKED, chunk(b"data: a\n\n"), chunk(b"data: b\n\n"), b"0\r\n\r\n"))
    connection = open_connection("127.0.0.1", port, None, 5.0)

    with pytest.raises(ZeroDivisionError):
        connection.exchange(REQUEST, 5.0, Broken())

    assert connection.dead
