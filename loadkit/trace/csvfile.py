"""CSV by column name, block by block: a file of any length passes through bounded memory."""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import csv

from loadkit.errors import TraceError
from loadkit.trace.cells import Place
from loadkit.trace.source import (
    LINE_BYTES_MAX,
    Source,
    arrow_stream,
    damage_reported,
    huge_line,
    line_number,
)


def header(source: Source) -> list[str]:
    return [name.strip('"') for name in source.first_line.split(",")]


def blocks(source: Source, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, Place]]:
    """Blocks of text cells of the named columns. Raises TraceError with file and line."""
    _require(source, columns)
    row = 1  # the header is line 0
    with damage_reported(source), arrow_stream(source) as stream:
        try:
            reader = csv.open_csv(
                stream,
                read_options=csv.ReadOptions(block_size=LINE_BYTES_MAX, use_threads=False),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(columns, pa.string()),
                    include_columns=list(columns),
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield batch, Place(source, row)
                row += batch.num_rows
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise _explained(source, str(error)) from error
    if row == 1:
        raise header_only(source)


def header_only(source: Source) -> TraceError:
    return TraceError(f"{source.path}: has a header and no rows", hint="was the download complete?")


def _require(source: Source, columns: Sequence[str]) -> None:
    found = header(source)
    for name in columns:
        if found.count(name) != 1:
            what = "no column" if name not in found else "two columns called"
            raise TraceError(
                f"{source.path}:1: {what} {name!r} (found {', '.join(found)[:200]!r})",
                hint="is this the format you mean? see `loadkit trace show --help`",
            )


def _explained(source: Source, message: str) -> TraceError:
    """Arrow's words → file, line and remedy."""
    if "straddling" in message or "block size" in message:
        return huge_line(source, None)
    if "Empty CSV" in message:
        return header_only(source)
    row = re.search(r"Row #(\d+)", message)
    place = f"{source.path}:{line_number(source, int(row[1]) - 1)}" if row else str(source.path)
    cells = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if cells:
        return TraceError(
            f"{place}: {cells[2]} cells in a row (want {cells[1]})",
            hint="the line is cut or has a stray comma; was the file downloaded whole?",
        )
    if "UTF8" in message:
        return TraceError(
            f"{place}: is not UTF-8 text",
            hint="convert it, for example: iconv -f LATIN1 -t UTF-8",
        )
    return TraceError(f"{place}: {message[:200]}", hint="is this CSV?")
