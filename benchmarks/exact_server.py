"""An OpenAI-compatible server that writes every token at a known instant and keeps the ledger of it.

It exists to be the truth that clients are measured against: token i of a stream is due
`ttft + i * itl` after the last byte of its request arrived, and the ledger holds when it was really
written, so that the server's own lateness can be taken out request by request. It schedules
nothing, queues nothing and refuses nothing. Linux only (timerfd).

Event loops round timers to a millisecond and buffer writes until their callbacks have all run.
Neither is good enough here: one timerfd wakes a heap of due writes, and bytes go straight to the
socket with a stamp on either side of the system call.
"""

import argparse
import asyncio
import ctypes
import gc
import heapq
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httptools
import orjson
import uvloop
from exact_wire import MODEL, SSE_HEAD, Ask, Pace, Script, http_head, stream_script, whole_script

_LIBC = ctypes.CDLL(None, use_errno=True)
_TFD_TIMER_ABSTIME = 1


class Alarm:
    """One-shot alarm on the monotonic clock, to the microsecond."""

    def __init__(self) -> None:
        self.fd = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def set(self, instant_s: float) -> None:
        seconds, fraction = divmod(instant_s, 1.0)
        spec = (ctypes.c_long * 4)(0, 0, int(seconds), int(fraction * 1e9))
        _LIBC.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, spec, None)

    def clear(self) -> None:
        os.read(self.fd, 8)


class Reply:
    """One answer under way, and what the ledger will say about it."""

    __slots__ = ("arrival_s", "connection", "end_s", "pace", "request_id", "script", "start_s")

    def __init__(self, connection: "Connection", request_id: str, script: Script) -> None:
        self.connection = connection
        self.pace = connection.server.pace
        self.request_id = request_id
        self.script = script
        self.arrival_s = connection.seen_s
        self.start_s: list[float] = []
        """Just before each write: no client can have seen the bytes earlier."""
        self.end_s: list[float] = []
        """Just after each write."""

    def due_s(self, i: int) -> float:
        script = self.script
        return self.pace.on_grid_s(self.arrival_s + script.first_s + i * script.gap_s)

    def write_next(self) -> bool:
        """Write the next piece; True while there is another one to come."""
        script = self.script
        is_last = len(self.end_s) == script.count - 1
        self.start_s.append(time.monotonic())
        alive = self.connection.write(script.last if is_last else script.piece)
        self.end_s.append(time.monotonic())
        if is_last and script.tail:
            self.connection.write(script.tail)
        return alive and not is_last

    def ledger_line(self) -> bytes:
        entry = {
            "request_id": self.request_id,
            "arrival_s": self.arrival_s,
            "due_s": [self.due_s(i) for i in range(len(self.end_s))],
            "start_s": self.start_s,
            "end_s": self.end_s,
        }
        return orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)


class ExactServer:
    """The heap of due writes, the counters and the ledger."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.alarm = Alarm()
        self.replies: list[Reply] = []
        self.on_first_reply: Callable[[], None] | None = None
        self.finished = self.prompt_tokens = self.generated_tokens = 0
        self._heap: list[tuple[float, int, Reply]] = []
        self._numbers = count()

    def start(self, reply: Reply) -> None:
        if not self.replies and self.on_first_reply:
            self.on_first_reply()
        self.replies.append(reply)
        heapq.heappush(self._heap, (reply.due_s(0), next(self._numbers), reply))
        if self._heap[0][2] is reply:
            self.alarm.set(self._heap[0][0])

    def write_due(self) -> None:
        """Everything due by now; what becomes due meanwhile waits until sockets were read."""
        self.alarm.clear()
        heap, now_s = self._heap, time.monotonic()
        while heap and heap[0][0] <= now_s:
            _, number, reply = heap[0]
            self.generated_tokens += reply.script.write_tokens
            if reply.write_next():
                heapq.heapreplace(heap, (reply.due_s(len(reply.end_s)), number, reply))
            else:
                self.finished += 1
                heapq.heappop(heap)
        if heap:
            self.alarm.set(heap[0][0])

    def ledger(self) -> bytes:
        return b"".join(reply.ledger_line() for reply in self.replies)

    def metrics(self) -> bytes:
        label = f'{{model_name="{MODEL}"}}'
        values = {
            "vllm:num_requests_running": ("gauge", len(self._heap)),
            "vllm:num_requests_waiting": ("gauge", 0),
            "vllm:num_preemptions_total": ("counter", 0),
            "vllm:prompt_tokens_total": ("counter", self.prompt_tokens),
            "vllm:generation_tokens_total": ("counter", self.generated_tokens),
            "vllm:request_success_total": ("counter", self.finished),
        }
        lines = (f"# TYPE {n} {kind}\n{n}{label} {v}.0\n" for n, (kind, v) in values.items())
        return "".join(lines).encode()


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, one request at a time."""

    def __init__(self, server: ExactServer) -> None:
        self.server = server
        self.parser = httptools.HttpRequestParser(self)
        self.transport: Any = None
        self.fd = -1
        self.buffered = False
        self.seen_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.fd = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.fd = -1

    def data_received(self, data: bytes) -> None:
        self.seen_s = time.monotonic()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_message_begin(self) -> None:
        self.path, self.body = b"", b""
        self.headers: dict[bytes, bytes] = {}

    def on_url(self, url: bytes) -> None:
        self.path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        path = self.path.partition(b"?")[0].decode("latin-1")
        if path in _GENERATE:
            generate(self, chat=_GENERATE[path])
        elif path in _FIXED:
            self.answer(*_FIXED[path](self.server))
        else:
            self.answer("application/json", b'{"error":{"message":"not found"}}', 404)

    def answer(self, content_type: str, body: bytes, status: int = 200) -> None:
        self.write(http_head(status, content_type, f"content-length: {len(body)}") + body)

    def write(self, data: bytes) -> bool:
        """Straight to the socket; False when the client has gone.

        Only a client that stopped reading leaves bytes over: from then on its transport buffers.
        """
        if self.fd < 0:
            return False
        sent = 0
        if not self.buffered:
            try:
                sent = os.write(self.fd, data)
            except BlockingIOError:
                pass
            except OSError:
                return False
        if sent < len(data):
            self.buffered = True
            self.transport.write(data[sent:])
        return True


def _models(_: ExactServer) -> tuple[str, bytes]:
    model = {"id": MODEL, "object": "model", "owned_by": "loadkit", "max_model_len": 32768}
    return "application/json", orjson.dumps({"object": "list", "data": [model]})


_FIXED: dict[str, Callable[[ExactServer], tuple[str, bytes]]] = {
    "/v1/models": _models,
    "/version": lambda _: ("application/json", b'{"version":"0.0.0+exact"}'),
    "/health": lambda _: ("text/plain", b""),
    "/metrics": lambda server: ("text/plain; version=0.0.4", server.metrics()),
    "/ledger": lambda server: ("application/x-ndjson", server.ledger()),
}
_GENERATE = {"/v1/completions": False, "/v1/chat/completions": True}
"""Path → is it the chat API?"""


def generate(connection: Connection, *, chat: bool) -> None:
    """Put the reply to this request on the heap."""
    server = connection.server
    try:
        ask = Ask.parse(connection.body, server.pace.tokens, chat=chat)
    except (ValueError, AttributeError, TypeError, LookupError):
        connection.answer("application/json", b'{"error":{"message":"bad request"}}', 400)
        return
    request_id = connection.headers.get(b"x-request-id", b"").decode("latin-1")
    server.prompt_tokens += ask.prompt_tokens
    if ask.stream:
        connection.write(SSE_HEAD)
    script = (stream_script if ask.stream else whole_script)(ask, server.pace, request_id)
    server.start(Reply(connection, request_id, script))


async def serve(args: argparse.Namespace) -> None:
    """Until SIGTERM or SIGINT; the ledger is then written."""
    loop = asyncio.get_running_loop()
    pace = Pace(args.ttft_ms / 1e3, args.itl_ms / 1e3, args.tokens, args.grid_ms / 1e3)
    server = ExactServer(pace)
    loop.add_reader(server.alarm.fd, server.write_due)
    if args.stall_for:
        # The whole process stops, as a frozen engine does: no byte to anybody.
        freeze = partial(time.sleep, args.stall_for)
        server.on_first_reply = partial(loop.call_later, args.stall_at, freeze)
    listener = await loop.create_server(
        lambda: Connection(server), args.host, args.port, backlog=4096
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    print(f"http://{args.host}:{listener.sockets[0].getsockname()[1]}", flush=True)
    gc.freeze()
    gc.disable()
    await stop.wait()
    if args.ledger:
        args.ledger.write_bytes(server.ledger())


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve tokens at exact instants.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 = any free one; the URL is printed")
    parser.add_argument("--ttft-ms", type=float, default=100.0)
    parser.add_argument("--itl-ms", type=float, default=20.0)
    parser.add_argument("--tokens", type=int, default=50, help="where a request does not say")
    parser.add_argument("--grid-ms", type=float, default=1.0, help="write in steps; 0 = at once")
    parser.add_argument("--stall-at", type=float, default=5.0, help="seconds after the first reply")
    parser.add_argument("--stall-for", type=float, default=0.0, help="seconds of silence, once")
    parser.add_argument("--ledger", type=Path, help="JSON lines, written at the end")
    return parser.parse_args()


if __name__ == "__main__":
    uvloop.run(serve(parse_args()))
