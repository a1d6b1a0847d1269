"""One HTTP/1.1 connection whose stream is read in the event loop itself.

A greenlet switch per chunk is what makes gevent clients slow: here the hub's own callback takes the
bytes, stamps them, frames them, and wakes the waiting greenlet once, when the message is complete.
The stamp is the kernel's receive time where it gives one (SO_TIMESTAMPNS), so that a busy client does
not inflate what it measures. What a body means is not known here: its pieces go to the caller's `Body`.
"""

import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from socket import CMSG_SPACE
from time import CLOCK_REALTIME, clock_gettime, monotonic
from typing import Any, Protocol

import gevent
import httptools
from gevent.event import Event
from gevent.socket import wait_write

from loadkit.drive.tls import Tls, words

SO_TIMESTAMPNS = 35
"""Linux only, absent from the socket module (asm-generic/socket.h)."""
MAX_KERNEL_AGE_S = 60.0
"""A stamp that seems older comes from a wall clock that was stepped, not from a long wait."""
_TIMESPEC = struct.Struct("@qq")
_unpack_timespec = _TIMESPEC.unpack
_ANCILLARY_BYTES = CMSG_SPACE(_TIMESPEC.size)
RECV_BYTES = 1 << 14
"""Many chunks of a stream; a longer answer wakes the loop again."""
MAX_RESPONSE_BYTES = 64 << 20
READ, WRITE = 1, 2


@dataclass(slots=True)
class Response:
    """What HTTP tells of an answer; its body goes elsewhere."""

    sent_s: float
    """Monotonic, just before the first byte was handed to the socket."""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    first_byte_s: float | None = None
    finished_s: float | None = None
    complete: bool = False
    """The message ended as HTTP says it must; False = the peer cut it."""
    error: str | None = None


Take = Callable[[float, bytes], None]
"""Gets each piece of a body as it arrives, after its instant. Runs in the event loop: must not block."""


class Body(Protocol):
    """Who reads the body of one response."""

    def begin(self, headers: Mapping[str, str], /) -> Take:
        """The headers are complete; says what its pieces go to."""


class Connection:
    """Made by `dial.open_connection`; then `exchange` any number of times, one at a time.

    `dead` turns True the moment the peer closes it, also while it is idle.
    """

    def __init__(self, sock: Any, tls: Tls | None) -> None:
        self._sock = sock
        self._tls = tls
        self._parser = httptools.HttpResponseParser(self)
        """Reused: it starts anew after each whole message, and any other ends the connection."""
        self._response: Response | None = None
        self._body: Body | None = None
        self._take: Take = _drop
        self._fault: Exception | None = None
        self._done = Event()
        self._stamp_s = 0.0
        self._received_bytes = 0
        self._keep_alive = True
        self.dead = False
        self.idle_since_s = monotonic()
        self._watcher = gevent.get_hub().loop.io(sock.fileno(), READ)
        self._watcher.start(self._readable)

    def exchange(self, request: bytes, timeout_s: float, body: Body) -> Response:
        """Send one request and return when its response is complete, cut, or late.

        Never raises for what the peer does: `error` says it, and `body` had everything until then.
        Raises what `body` raised.
        """
        self._done.clear()
        self._received_bytes = 0
        response = self._response = Response(sent_s=monotonic())
        self._body, self._fault = body, None
        try:
            with gevent.Timeout(timeout_s):
                self._send(self._tls.encrypt(request) if self._tls else request)
                self._done.wait()
        except gevent.Timeout:
            self._finish("timeout")
        except OSError as error:
            self._finish(words(error))
        except gevent.GreenletExit:
            self._finish("cancelled")
        self._response = None
        self.idle_since_s = monotonic()
        if not self._keep_alive or response.error or not response.complete:
            self.close()
        if self._fault:
            raise self._fault
        return response

    def cancel(self) -> None:
        """End the exchange that is under way; its partial response is returned."""
        if self._response is not None:
            self._finish("cancelled")

    def close(self) -> None:
        if not self.dead:
            self.dead = True
            self._watcher.stop()
            self._watcher.close()
            self._sock.close()

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError:
                wait_write(self._sock.fileno())

    def _readable(self) -> None:  # noqa: C901 — in one piece: it runs for every token
        """Hub callback: must neither block nor raise."""
        try:
            data, ancillary, _, _ = self._sock.recvmsg(RECV_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._ended(words(error))
            return
        self._stamp_s = monotonic()
        if ancillary:  # nothing but the stamp was asked for
            seconds, nanoseconds = _unpack_timespec(ancillary[0][2])
            age_s = clock_gettime(CLOCK_REALTIME) - seconds - nanoseconds * 1e-9
            if 0.0 < age_s < MAX_KERNEL_AGE_S:
                self._stamp_s -= age_s
        if not data:
            self._ended("")
            return
        try:
            if self._tls:
                data = self._tls.decrypt(data)
                if not data:  # TLS sent for itself: tickets
                    return
            self._received_bytes += len(data)  # headers too: the parser itself knows no bound
            if self._response is None:
                self._ended("data without a request")
            elif self._received_bytes > MAX_RESPONSE_BYTES:
                self._finish(f"response over {MAX_RESPONSE_BYTES >> 20} MiB")
            else:
                self._parser.feed_data(data)
        except (httptools.HttpParserError, ssl.SSLError) as error:
            self._ended(f"malformed response: {error}")

    def _ended(self, why: str) -> None:
        """The peer closed (no words) or broke the connection."""
        response = self._response
        if response is None:
            self.close()
            return
        unframed = response.status and not self._framed(response)
        response.complete = bool(unframed) and not why
        if response.complete:
            self._finish(None)
        else:
            self._finish(why or "connection closed by the server")

    def _framed(self, response: Response) -> bool:
        return "content-length" in response.headers or "transfer-encoding" in response.headers

    def _finish(self, error: str | None) -> None:
        response = self._response
        if response is not None and response.finished_s is None:
            response.finished_s = self._stamp_s if error is None else monotonic()
            response.error = error
            self._keep_alive = response.complete and self._parser.should_keep_alive()
            self._take = _drop  # what follows is not ours
            self._done.set()

    # httptools calls these while it is fed.

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is not None and not self._done.is_set():
            self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        response = self._response
        if response is not None and self._body is not None and not self._done.is_set():
            response.status = self._parser.get_status_code()
            response.first_byte_s = response.first_byte_s or self._stamp_s
            self._take = self._body.begin(response.headers)

    def on_body(self, body: bytes) -> None:
        try:
            self._take(self._stamp_s, body)
        except Exception as fault:  # noqa: BLE001 — `exchange` raises it: a callback must not
            self._fault = fault
            self._finish("cancelled")

    def on_message_complete(self) -> None:
        if self._response is not None and self._response.status >= 200:
            self._response.complete = True
            self._finish(None)


def _drop(stamp_s: float, data: bytes) -> None:
    """Takes what nobody asked for."""
