"""The command's side of a driver: starts its processes, speaks frames with it, ends it.

Imports neither Locust nor gevent: the command's own process stays as it is.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import IO

from loadkit.drive.frames import Frame, FrameReader, encode
from loadkit.drive.plan import Plan

READ_BYTES = 1 << 20
END_WITHIN_S = 10.0


class Driver:
    """Frames to and from a driver, whoever started it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send_plan(self, plan: Plan) -> None:
        await self._send({"type": "plan", "plan": plan.to_wire()})

    async def stop(self) -> None:
        """Ask for the end: nothing more is sent, what is in flight is cancelled and reported."""
        await self._send({"type": "stop"})

    async def frames(self) -> AsyncIterator[Frame]:
        """Everything the driver says, until it ends or is gone."""
        frames = FrameReader()
        while data := await self._reader.read(READ_BYTES):
            for frame in frames.feed(data):
                yield frame

    async def _send(self, frame: Frame) -> None:
        with contextlib.suppress(
            ConnectionError
        ):  # it is gone: `frames` ends, and that is said there
            self._writer.write(encode(frame))
            await self._writer.drain()


@contextlib.asynccontextmanager
async def launched(workers: int, web_port: int, log_dir: Path) -> AsyncIterator[Driver]:
    """Start a driver with so many workers; whatever happens, no process of it outlives the block."""
    processes: list[asyncio.subprocess.Process] = []
    try:
        if workers == 1 and not web_port:
            head = await _start(["local"], log_dir / "local.log")
            processes.append(head)
        else:
            port = str(_free_port())
            options = ["--port", port, "--workers", str(workers), "--web-port", str(web_port)]
            head = await _start(["master", *options], log_dir / "master.log")
            processes.append(head)
            for index in range(workers):
                log = log_dir / f"worker-{index}.log"
                processes.append(await _start(["worker", "--port", port], log))
        assert head.stdin is not None
        assert head.stdout is not None
        yield Driver(head.stdout, head.stdin)
    finally:
        await _end(processes)


async def attached() -> Driver:
    """The driver at our own standard streams: a Locust process that started this command."""
    loop = asyncio.get_running_loop()
    read_fd, write_fd = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # whatever prints goes to stderr: stdout is for frames
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, _file(read_fd, "rb"))
    transport, flow = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, _file(write_fd, "wb")
    )
    return Driver(reader, asyncio.StreamWriter(transport, flow, reader, loop))


def last_words(log_dir: Path) -> str:
    """The last line that any process of a failed driver wrote, if any."""
    for log in sorted(log_dir.glob("*.log")):
        lines = log.read_text("utf-8", errors="replace").strip().splitlines()
        if lines:
            return f"{log.stem}: {lines[-1][:300]}"
    return ""


async def _start(arguments: Sequence[str], log: Path) -> asyncio.subprocess.Process:
    with log.open("wb") as stderr:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "loadkit.drive.child", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "GEVENT_TRACK_GREENLET_TREE": "0"},  # a stack walk per request
            start_new_session=True,  # Ctrl-C in a terminal reaches the command alone
        )


async def _end(processes: Sequence[asyncio.subprocess.Process]) -> None:
    """Close every lifeline, then kill what has not gone by itself."""
    for process in processes:
        if process.stdin is not None:
            process.stdin.close()
    waits = [asyncio.create_task(process.wait()) for process in processes]
    if not waits:
        return
    _, late = await asyncio.wait(waits, timeout=END_WITHIN_S)
    for process in processes:
        if process.returncode is None:
            process.kill()
    if late:
        await asyncio.wait(late)


def port_taken(port: int) -> str:
    """Why nothing can listen on this loopback port; empty when something can."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _file(descriptor: int, mode: str) -> IO[bytes]:
    return os.fdopen(descriptor, mode)
