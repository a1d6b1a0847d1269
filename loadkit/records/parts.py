"""Rows to Parquet in small closed parts: whatever a crash leaves behind, every closed part reads."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loadkit.errors import RunError


class PartWriter:
    """Rows into `part-NNNNN.parquet` files, each under a hidden name until it is complete.

    The caller decides when a part is closed (`close_part`), because only it knows the time.
    Not thread-safe.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema
        self._rows: list[Sequence[Any]] = []
        self._next = 1 + max((_part_number(p) for p in folder.glob("part-*.parquet")), default=-1)
        self.rows_written = 0

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Rows in the order of the schema's fields."""
        self._rows.extend(rows)

    def close_part(self) -> None:
        """Write what was added since the last part; nothing when that is nothing.

        Raises RunError when the disk refuses; the rows are then kept for another try.
        """
        if not self._rows:
            return
        final = self.folder / f"part-{self._next:05d}.parquet"
        write_table(to_table(self._rows, self.schema), final)
        self.rows_written += len(self._rows)
        self._rows = []
        self._next += 1


def to_table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(column, type=f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def write_table(table: pa.Table, path: Path) -> None:
    """Atomic: a reader sees the whole file or none. Raises RunError when the disk refuses."""
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        pq.write_table(table, hidden, compression="zstd")
        hidden.replace(path)
    except OSError as error:
        hidden.unlink(missing_ok=True)
        raise RunError(
            f"{path}: cannot be written ({os.strerror(error.errno) if error.errno else error})",
            hint="free some disk; everything written before this is kept",
        ) from error


def read_parts(folder: Path, schema: pa.Schema) -> pa.Table:
    """All closed parts as one table; an empty one when there are none. Raises RunError."""
    paths = sorted(folder.glob("part-*.parquet"))
    try:
        tables = [pq.read_table(path).cast(schema) for path in paths]
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RunError(
            f"{folder}: not readable as a loadkit run ({error})",
            hint="was it written by another version, or changed by hand?",
        ) from error
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(tables).unify_dictionaries()


def compact(folder: Path, schema: pa.Schema, more_than: int = 1) -> None:
    """Merge many small parts into one when a run has ended.

    The merged folder takes the place of the old one in two renames, so no row is ever seen twice;
    `recover` completes a swap that was cut between them.
    """
    if len(list(folder.glob("part-*.parquet"))) <= more_than:
        return
    merged, old = _swap_names(folder)
    remove_folder(merged)
    merged.mkdir()
    write_table(read_parts(folder, schema), merged / "part-00000.parquet")
    folder.rename(old)
    merged.rename(folder)
    remove_folder(old)


def recover(folder: Path) -> None:
    """Finish or undo a `compact` that was interrupted."""
    merged, old = _swap_names(folder)
    if not folder.exists() and old.exists():
        old.rename(folder)
    remove_folder(merged)
    remove_folder(old)


def _swap_names(folder: Path) -> tuple[Path, Path]:
    return folder.with_name(f".{folder.name}.merged"), folder.with_name(f".{folder.name}.old")


def remove_folder(folder: Path) -> None:
    if folder.exists():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _part_number(path: Path) -> int:
    return int(path.stem.removeprefix("part-"))
