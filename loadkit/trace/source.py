"""A trace file as bytes: opened, looked at, hashed, and its lines found again for an error message.

Refuses what cannot be a trace before anybody parses it: a folder, an empty file, a Git LFS pointer,
UTF-16, binary data. Never holds more than one block or line of a text file.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa

from loadkit.errors import TraceError

HEAD_BYTES = 65_536
LINE_BYTES_MAX = 16 * 1024 * 1024

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LFS = b"version https://git-lfs.github.com/spec/"


class Source(NamedTuple):
    path: Path
    head: bytes
    """The first bytes, decompressed."""
    gzipped: bool

    @property
    def is_parquet(self) -> bool:
        return self.head.startswith(_PARQUET)

    @property
    def first_line(self) -> str:
        """The first line that is not blank, without its end; possibly cut at `HEAD_BYTES`."""
        text = self.head.decode("utf-8-sig", "replace")
        return next((line.strip() for line in text.splitlines() if line.strip()), "")


def open_source(path: Path) -> Source:
    """Look at the first bytes of a file. Raises TraceError for what no reader could read."""
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if entry.is_file())[:5]
        raise TraceError(
            f"{path}: is a folder, not a trace file",
            hint=f"name one file in it: {', '.join(names)}" if names else "name a file",
        )
    try:
        with path.open("rb") as file:
            gzipped = file.read(2) == _GZIP
        source = Source(path, b"", gzipped)
        with damage_reported(source), open_bytes(source) as stream:
            head = stream.read(HEAD_BYTES)
    except OSError as error:
        raise TraceError(
            f"{path}: {(error.strerror or 'cannot be read').lower()}", hint="check the path"
        ) from error
    _refuse_hopeless(path, head)
    return Source(path, head, gzipped)


def _refuse_hopeless(path: Path, head: bytes) -> None:
    if not head.strip():
        raise TraceError(f"{path}: is empty", hint="was the download complete?")
    if head.startswith(_LFS):
        raise TraceError(
            f"{path}: is a Git LFS pointer, not the trace itself",
            hint="fetch the file with `git lfs pull`, or download it from the release page",
        )
    if head.startswith(_PARQUET):
        return
    if head.startswith(_UTF16):
        raise TraceError(
            f"{path}: is UTF-16 text (want UTF-8)", hint="convert it: iconv -f UTF-16 -t UTF-8"
        )
    if b"\0" in head:
        raise TraceError(f"{path}: is binary data, not a trace", hint=_FORMATS_HINT)
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # else the last character is merely cut by the head
            line = head[: error.start].count(b"\n") + 1
            raise TraceError(
                f"{path}:{line}: is not UTF-8 text (byte 0x{head[error.start]:02x})",
                hint="convert it, for example: iconv -f LATIN1 -t UTF-8",
            ) from error


_FORMATS_HINT = "a trace is CSV, JSONL (either may be gzipped) or Parquet"


def open_bytes(source: Source) -> BinaryIO:
    """The decompressed bytes, buffered."""
    if source.gzipped:
        return cast("BinaryIO", gzip.open(source.path))
    return source.path.open("rb")


def arrow_stream(source: Source) -> pa.NativeFile:
    return pa.input_stream(str(source.path), compression="gzip" if source.gzipped else None)


@contextmanager
def damage_reported(source: Source) -> Iterator[None]:
    """Turn what a decompressor says about damaged bytes into a TraceError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(source) from error
    except OSError as error:
        if error.errno is None:  # Arrow's own, not the system's
            raise _damaged(source) from error
        raise


def _damaged(source: Source) -> TraceError:
    kind = "gzip data" if source.gzipped else "data"
    return TraceError(
        f"{source.path}: the {kind} is cut short or damaged",
        hint="download it again and compare its sha256",
    )


def lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line) of every line that is not blank. Raises TraceError on a huge line."""
    with damage_reported(source), open_bytes(source) as stream:
        number = 0
        while line := stream.readline(LINE_BYTES_MAX + 1):
            number += 1
            if len(line) > LINE_BYTES_MAX:
                raise huge_line(source, number)
            if line.strip():
                yield number, line


def huge_line(source: Source, number: int | None) -> TraceError:
    place = source.path if number is None else f"{source.path}:{number}"
    return TraceError(
        f"{place}: a line is longer than {LINE_BYTES_MAX >> 20} MiB",
        hint="is this one JSON document? A trace has one request per line",
    )


def line_number(source: Source, row: int) -> int:
    """The line in the file of the `row`-th non-blank line (from 0). Scans: for error messages only."""
    return next(islice(lines(source), row, None), (row + 1, b""))[0]


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
