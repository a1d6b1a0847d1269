"""What the command and its driver say to each other over a pair of pipes.

A frame is a 4-byte length and a msgpack map with a `type`. The end of a pipe means that the other
side is gone; both sides then end themselves, so no process is ever left behind.

To the driver: `plan`, then perhaps `stop`. From it: `ready`, `start`, `rows`, `health`, `event`, `end`.
"""

import struct
from collections.abc import Iterator
from typing import Any

import msgpack

_LENGTH = struct.Struct("!I")
MAX_FRAME_BYTES = 1 << 30

Frame = dict[str, Any]


def encode(frame: Frame) -> bytes:
    body: bytes = msgpack.packb(frame)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Bytes in, frames out, however the bytes were cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Raises ValueError on a length that no honest peer sends."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"frame of {length} bytes")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            frame: Frame = msgpack.unpackb(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield frame
