"""The driver's end of the pipes to the command (see `frames`)."""

import os
from collections.abc import Callable

import gevent
from gevent.lock import Semaphore
from gevent.os import make_nonblocking, nb_read, nb_write
from gevent.queue import Queue

from loadkit.drive.frames import Frame, FrameReader, encode

READ_BYTES = 1 << 20


class Link:
    """Frames over two file descriptors, without ever blocking the loop."""

    def __init__(self, read_fd: int, write_fd: int, on_lost: Callable[[], None]) -> None:
        """`on_lost` is called when the command is gone."""
        self._read_fd, self._write_fd = read_fd, write_fd
        self._on_lost = on_lost
        self._frames: Queue[Frame] = Queue()
        self._writing = Semaphore()
        self._stop: Callable[[], None] = lambda: None
        make_nonblocking(read_fd)
        make_nonblocking(write_fd)
        gevent.spawn(self._read)

    def on_stop(self, callback: Callable[[], None]) -> None:
        """What to do when the command says `stop`."""
        self._stop = callback

    def forget(self) -> None:
        """From now on the end of the pipe means nothing: the work is done."""
        self._on_lost = lambda: None

    def receive(self) -> Frame:
        """The next frame that is not `stop`; waits for it."""
        frame: Frame = self._frames.get()
        return frame

    def send(self, frame: Frame) -> None:
        data = memoryview(encode(frame))
        with self._writing:
            while data:
                try:
                    data = data[nb_write(self._write_fd, data) :]
                except OSError:
                    self._on_lost()
                    return

    def _read(self) -> None:
        reader = FrameReader()
        while data := self._read_some():
            for frame in reader.feed(data):
                if frame["type"] == "stop":
                    self._stop()
                else:
                    self._frames.put(frame)
        self._on_lost()

    def _read_some(self) -> bytes:
        try:
            data: bytes = nb_read(self._read_fd, READ_BYTES)
        except OSError:
            return b""
        return data


def standard_streams() -> tuple[int, int]:
    """Take stdin and stdout for frames; whatever prints from now on goes to stderr."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    return read_fd, write_fd
