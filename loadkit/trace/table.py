"""A trace in memory: an Arrow table of the canonical schema and what reading it changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from loadkit.model import Trace, TraceInfo, TraceRequest
from loadkit.trace.cells import decompressed
from loadkit.trace.schema import META_KEY


@dataclass(frozen=True, slots=True)
class TraceTable:
    table: pa.Table
    """`TRACE_SCHEMA`, sorted by `(arrival_s, seq)`."""
    info: TraceInfo
    meta: Mapping[str, Any]
    """`loadkit.meta`: everything true of the whole file, plain JSON."""

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def span_s(self) -> float:
        arrival_s = self.table["arrival_s"]
        return float(arrival_s[-1].as_py() - arrival_s[0].as_py())

    def with_metadata(self) -> pa.Table:
        """The table with `meta` inside, ready to be written."""
        return self.table.replace_schema_metadata({META_KEY: json.dumps(self.meta)})

    def to_trace(self) -> Trace:
        """Rows as `TraceRequest`; columns that no replay needs stay behind."""
        names = TraceRequest._fields
        columns = {name: _values(self.table[name], name) for name in names}
        rows = zip(*(columns[name] for name in names), strict=True)
        return Trace(tuple(map(TraceRequest._make, rows)), self.info)


def _values(column: Any, name: str) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if name == "prefix_ids":
        return [tuple(ids or ()) for ids in values]
    if name == "payload":
        return [decompressed(body) for body in values]
    return values
