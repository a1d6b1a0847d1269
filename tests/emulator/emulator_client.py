"""A client of its own for the emulator's tests: plain sockets, no code of loadkit."""

import http.client
import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 20.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    stamps_s: list[float] = field(default_factory=list)
    """When each piece of the body came off the socket."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of a stream; `[DONE]` stays text."""
        texts = [e.removeprefix("data: ") for e in self.body.decode().split("\n\n") if e]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]

    @property
    def tokens(self) -> list[str]:
        """The pieces of text that carry content."""
        found = []
        for event in self.events:
            for choice in event.get("choices", ()) if isinstance(event, dict) else ():
                text = choice.get("text") or choice.get("delta", {}).get("content")
                found += [text] if text else []
        return found

    @property
    def metrics(self) -> Any:
        """The per-request truth, in the last JSON of a stream or in the whole body."""
        events = [e for e in self.events if isinstance(e, dict)] if self.stamps_s else [self.json]
        return events[-1]["metrics"]


def ask(tokens: int = 5, prompt: int = 8, *, stream: bool = True, **more: Any) -> dict[str, Any]:
    """A completion of exact lengths."""
    usage = {"stream_options": {"include_usage": True}} if stream else {}
    exact = {"prompt": list(range(prompt)), "max_tokens": tokens, "ignore_eos": True}
    return {**exact, "stream": stream, **usage, **more}


def post(
    port: int,
    body: object,
    path: str = "/v1/completions",
    **headers: str,
) -> Answer:
    """One request; header names with `_` for `-`. Reads the body piece by piece, stamping each."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, data, named)
        return _read(connection.getresponse())
    finally:
        connection.close()


def get(port: int, path: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        return _read(connection.getresponse())
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse) -> Answer:
    pieces, stamps_s = [], []
    while piece := response.read1(65_536):
        pieces.append(piece)
        stamps_s.append(time.monotonic())
    headers = {name.lower(): value for name, value in response.getheaders()}
    streams = headers.get("content-type", "").startswith("text/event-stream")
    return Answer(response.status, headers, b"".join(pieces), stamps_s if streams else [])


def open_stream(port: int, body: dict[str, Any], request_id: str) -> socket.socket:
    """Send a request and read its first bytes; the caller closes the socket."""
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {request_id}\r\n"
    head += f"Content-Length: {len(data)}\r\n\r\n"
    sock = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    sock.sendall(head.encode() + data)
    received = b""
    while b"data: " not in received:
        piece = sock.recv(65_536)
        assert piece, received
        received += piece
    return sock


def samples(port: int) -> dict[str, float]:
    """Of /metrics: the value of each name, summed over labels."""
    totals: dict[str, float] = {}
    for line in get(port, "/metrics").body.decode().splitlines():
        if not line.startswith("#"):
            name = line.partition("{")[0].split()[0]
            totals[name] = totals.get(name, 0.0) + float(line.rpartition(" ")[2])
    return totals


def wait_for(port: int, name: str, value: float, within_s: float = 10.0) -> None:
    """Until a metric has this value."""
    until_s = time.monotonic() + within_s
    while (found := samples(port)[name]) != value:
        assert time.monotonic() < until_s, f"{name} is {found}, not {value}"
        time.sleep(0.02)
