"""One request between the engine and its connection: what was written, and the instant after each write."""

import asyncio
import socket
import struct
from typing import Literal

from loadkit.clock import Clock
from loadkit.core import Sequence, Token
from loadkit.emulator.api import Ask
from loadkit.emulator.tokens import WORDS
from loadkit.emulator.wire import ChunkTemplate, running_usage

Ending = Literal["finished", "expired", "error", "truncate", "reset"]

_NUM_WORDS = len(WORDS)


class Exchange:
    """Collects the instants of tokens; the answer is written whole at the end."""

    def __init__(self, ask: Ask, seq: Sequence, clock: Clock) -> None:
        self.ask = ask
        self.seq = seq
        self.ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.token_s: list[float] = []
        self._clock = clock

    def token(self, token: Token) -> None:  # noqa: ARG002  # for streams
        """One more token is there."""
        self.token_s.append(self._clock.now_s())

    def end(self, ending: Ending) -> None:
        if not self.ending.done():
            self.ending.set_result(ending)


class StreamExchange(Exchange):
    """Writes every token to the transport as one HTTP chunk, at once.

    This is the hot path: one formatted bytes object, one write, one stamp.
    """

    def open(self, transport: asyncio.Transport, template: ChunkTemplate, *, chunked: bool) -> None:
        """The response head is out. `chunked` = HTTP/1.1 framing."""
        self._transport = transport
        self._template = template
        self._chunked = chunked
        self._fixed_bytes = len(template.head) + len(template.tail)

    def token(self, token: Token) -> None:
        transport, template, position = self._transport, self._template, token.position
        if transport.is_closing():
            return
        word = WORDS[position % _NUM_WORDS]
        if position and self._chunked and not token.is_last and not self.ask.continuous_usage:
            size = self._fixed_bytes + len(word)
            transport.write(b"%x\r\n%b%b%b\r\n" % (size, template.head, word, template.tail))
        else:
            transport.write(self._framed(self._event(token, word)))
        self.token_s.append(self._clock.now_s())

    def _event(self, token: Token, word: bytes) -> bytes:
        template = self._template
        opening = template.opening if token.position == 0 else b""
        tail = template.last_tail if token.is_last else template.tail
        event = opening + template.head + word + tail
        if self.ask.continuous_usage:
            event += running_usage(self.seq.prompt_tokens, token.position + 1)
        return event

    def _framed(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data


def reset_connection(transport: asyncio.BaseTransport | None) -> None:
    """End the connection with a TCP reset, as a process that died does."""
    if not isinstance(transport, asyncio.Transport):
        return
    linger_off = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_off)
    transport.abort()
