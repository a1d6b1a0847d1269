"""`loadkit.trace/v1`: the one shape that every trace takes, as an Arrow schema.

One row per request, sorted by `(arrival_s, seq)`. Null is unknown; 0 is a value. Instants count
seconds from the trace's own t0. What is true of the whole file is JSON under `META_KEY` in the
schema metadata: sources and their sha256, rows read, dropped and repaired, t0, generator parameters.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA_VERSION = "loadkit.trace/v1"
META_KEY = b"loadkit.meta"

_WORD = pa.dictionary(pa.int32(), pa.string())
_SEGMENT = pa.struct([("kind", pa.string()), ("id", pa.int64()), ("tokens", pa.int32())])

TRACE_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("arrival_s", pa.float64(), nullable=False),
        pa.field("lane", _WORD, nullable=False),
        pa.field("lane_from", _WORD, nullable=False),  # recorded | rule:<name> | assumed
        pa.field("tenant", _WORD),
        pa.field("session", pa.string()),
        pa.field("turn", pa.int32()),
        pa.field("parent_id", pa.string()),
        pa.field("think_s", pa.float32()),
        pa.field("batch_id", pa.string()),
        pa.field("deadline_s", pa.float64()),
        pa.field("priority", pa.int32()),  # 0 = normal, lower = sooner
        pa.field("prompt_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("max_tokens", pa.int32()),
        pa.field(
            "service_s", pa.float64()
        ),  # how long it holds a slot, where that is what is known
        pa.field("cached_tokens", pa.int32()),
        pa.field("reasoning_tokens", pa.int32()),
        pa.field("token_source", _WORD),
        pa.field("prefix_ids", pa.list_(pa.int64())),  # chained blocks, from the prompt's start
        pa.field("prefix_block", pa.int32()),
        pa.field("prefix_ns", _WORD),
        pa.field("segments", pa.list_(_SEGMENT)),
        pa.field("payload", pa.large_binary()),  # JSON, zstd
        pa.field("prompt", pa.large_string()),
        pa.field("endpoint", _WORD),
        pa.field("model", _WORD),
        pa.field("modality", _WORD),
        pa.field("stream", pa.bool_()),
        pa.field("status", _WORD, nullable=False),
        pa.field("rec_e2e_s", pa.float32()),
        pa.field("rec_ttft_s", pa.float32()),
        pa.field("source", _WORD, nullable=False),
        pa.field("source_row", pa.int64()),  # line in the source file, blank lines not counted
        pa.field("extra", pa.string()),  # JSON object
    ]
)

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")
SIZED_BY_TIME = ("arrival_s", "service_s")
"""Also enough: a trace for the simulator alone. Such a trace cannot be sent."""


def missing_column(names: Collection[str]) -> str | None:
    """The first column that a trace with these ones lacks; None when it is complete."""
    if set(SIZED_BY_TIME) <= set(names):
        return None
    return next((name for name in REQUIRED if name not in names), None)


STATUSES = ("ok", "error", "cancelled", "proxy_cache", "unknown")


def constant(word: str, rows: int) -> pa.DictionaryArray:
    """One word, `rows` times, at four bytes each."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word]))


def conform(columns: Mapping[str, Any], rows: int) -> pa.Table:
    """Arrange columns as `TRACE_SCHEMA`; absent ones become null.

    Raises pa.ArrowInvalid when a value does not fit its type.
    """
    arrays = [_cast(columns.get(field.name), field, rows) for field in TRACE_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=TRACE_SCHEMA)


def _cast(column: Any, field: pa.Field, rows: int) -> Any:
    if column is None:
        return pa.nulls(rows, field.type)
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        column = pa.array(column)
    if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    return column.cast(field.type)
