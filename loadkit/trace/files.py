"""A trace from disk and back: `read_table`, `load`, `write`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from loadkit.errors import TraceError
from loadkit.model import Trace
from loadkit.trace.assemble import assemble
from loadkit.trace.cells import decompressed
from loadkit.trace.formats import FORMATS, check_options, format_of
from loadkit.trace.raw import ReadOptions
from loadkit.trace.schema import REQUIRED
from loadkit.trace.source import open_source
from loadkit.trace.table import TraceTable

DEFAULTS = ReadOptions()
_KEPT = set(REQUIRED)
_JSON_COLUMNS = ("prefix_ids", "segments")


def read_table(
    path: Path | str,
    fmt: str | None = None,
    options: ReadOptions = DEFAULTS,
    *,
    refuse_segments: bool = True,
) -> TraceTable:
    """Read any known format into the canonical table. `fmt` None = look at the content.

    A file whose clock starts again is refused unless `options.segment` chooses a part;
    with `refuse_segments=False` its first part is taken. Raises TraceError.
    """
    source = open_source(Path(path))
    name = format_of(source, fmt)
    check_options(name, options)
    raw = FORMATS[name].read(source, options)
    return assemble(name, raw, source, options, refuse_segments=refuse_segments)


def load(path: Path | str, fmt: str | None = None, options: ReadOptions = DEFAULTS) -> Trace:
    """Read any known format into the rows that a schedule is made of. Raises TraceError."""
    return read_table(path, fmt, options).to_trace()


def write(table: TraceTable, path: Path | str, *, force: bool = False) -> None:
    """Write Parquet, JSONL or CSV by the suffix of `path`, whole or not at all.

    Parquet keeps types and provenance; the text forms leave out columns that are null throughout.
    Raises TraceError, also when the file exists and `force` is off.
    """
    path = Path(path)
    writer = writer_for(path, force=force)
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        writer(table, hidden)
        hidden.replace(path)
    except OSError as error:
        hidden.unlink(missing_ok=True)
        raise TraceError(
            f"{path}: cannot be written ({error.strerror or error})", hint="check folder and space"
        ) from error


def writer_for(path: Path, *, force: bool) -> Callable[[TraceTable, Path], None]:
    """What would write `path`; asked first, so that no work is lost. Raises TraceError."""
    writer = _WRITERS.get(path.suffix)
    if writer is None:
        raise TraceError(
            f"{path}: cannot tell the format from its suffix", hint=f"use {', '.join(_WRITERS)}"
        )
    if not path.parent.is_dir():
        raise TraceError(f"{path.parent}: is not a folder", hint="make it first")
    if path.is_dir() or (path.exists() and not force):
        raise TraceError(f"{path}: exists already", hint="choose another name, or add --force")
    return writer


def _write_parquet(table: TraceTable, path: Path) -> None:
    pq.write_table(
        table.with_metadata(),
        path,
        compression="zstd",
        use_dictionary=[f.name for f in table.table.schema if pa.types.is_dictionary(f.type)],
        column_encoding={
            "seq": "DELTA_BINARY_PACKED",
            "source_row": "DELTA_BINARY_PACKED",
            "prefix_ids.list.element": "DELTA_BINARY_PACKED",  # runs of neighbours
        },
    )


def _told_columns(table: pa.Table) -> pa.Table:
    """Without columns that say nothing; the three that every trace has stay."""
    told = {name for name in table.schema.names if table[name].null_count < table.num_rows}
    return table.select([name for name in table.schema.names if name in (told | _KEPT) - {"seq"}])


def _write_jsonl(table: TraceTable, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in _told_columns(table.table).to_batches(max_chunksize=20_000):
            file.writelines(_json_line(row) for row in batch.to_pylist())


def _json_line(row: dict[str, Any]) -> str:
    told = {name: value for name, value in row.items() if value is not None or name in _KEPT}
    if "payload" in told:
        told["payload"] = json.loads(decompressed(told["payload"]) or b"null")
    extra = json.loads(told.pop("extra", "{}"))
    return json.dumps(extra | told, ensure_ascii=False) + "\n"


def _write_csv(table: TraceTable, path: Path) -> None:
    told = _told_columns(table.table)
    for index, field in enumerate(told.schema):
        told = told.set_column(index, field.name, _plain(told[field.name], field))
    csv.write_csv(told, str(path), csv.WriteOptions(quoting_style="needed"))


def _plain(column: Any, field: pa.Field) -> Any:
    if field.name in _JSON_COLUMNS:
        return pa.array(
            [v if v is None else json.dumps(v) for v in column.to_pylist()], pa.string()
        )
    if field.name == "payload":
        bodies = [decompressed(body) for body in column.to_pylist()]
        return pa.array([body if body is None else body.decode() for body in bodies], pa.string())
    return column.cast(pa.string()) if pa.types.is_dictionary(field.type) else column


_WRITERS = {".parquet": _write_parquet, ".jsonl": _write_jsonl, ".csv": _write_csv}
