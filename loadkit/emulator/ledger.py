"""What the server really did, one JSON line per request, on the monotonic clock all processes share.

The first line is the head. A line with `clock` ends each life of the engine, at a scripted restart and
at the end: how late its steps ended, which is the noise that every instant above it carries.

Rows are encoded when a request ends and written by another thread twice a second, so that the disk
never holds up a token. A server that is killed loses what ended in its last half second.
"""

import asyncio
from pathlib import Path
from typing import IO, Any

import orjson

from loadkit.errors import InputError

LEDGER_SCHEMA = "loadkit.ledger/v1"
FLUSH_EVERY_S = 0.5


class Ledger:
    """Appends to a new file; without a path it keeps nothing."""

    def __init__(self, path: Path | None, head: dict[str, Any]) -> None:
        """Raises InputError where the file cannot be made."""
        self._lines: list[bytes] = []
        self._file: IO[bytes] | None = None
        if path is None:
            return
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from error
        self.add({"schema": LEDGER_SCHEMA, **head})
        self._write(self._take())

    def add(self, row: dict[str, Any]) -> None:
        if self._file:
            self._lines.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    async def flush_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            if self._lines:
                await asyncio.to_thread(self._write, self._take())

    def close(self) -> None:
        """Write what is left."""
        if self._file:
            self._write(self._take())
            self._file.close()

    def _take(self) -> bytes:
        lines, self._lines = self._lines, []
        return b"".join(lines)

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._file.flush()
