"""The Arrow schemas of a run directory. Frozen: a change here is a new schema version."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from loadkit.model import Send

_WORD = pa.dictionary(pa.int32(), pa.string())

REQUESTS_SCHEMA = pa.schema(
    [
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("lane", _WORD, nullable=False),
        pa.field("scheduled_s", pa.float64(), nullable=False),
        pa.field("status", _WORD, nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("source", _WORD, nullable=False),
        pa.field("tenant", _WORD),
        pa.field("session", pa.string()),
        pa.field("turn", pa.int32()),
        pa.field("priority", pa.int32()),
        pa.field("deadline_s", pa.float64()),
        pa.field("planned_s", pa.float64()),
        pa.field("sent_s", pa.float64()),
        pa.field("connect_s", pa.float64()),
        pa.field("first_byte_s", pa.float64()),
        pa.field("first_token_s", pa.float64()),
        pa.field("first_answer_s", pa.float64()),
        pa.field("last_token_s", pa.float64()),
        pa.field("finished_s", pa.float64()),
        pa.field("chunk_offsets_s", pa.list_(pa.float32())),
        pa.field("prompt_tokens_planned", pa.int32()),
        pa.field("output_tokens_planned", pa.int32()),
        pa.field("prompt_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("cached_tokens", pa.int32()),
        pa.field("token_source", _WORD),
        pa.field("finish_reason", _WORD),
        pa.field("http_status", pa.int32()),
        pa.field("error", pa.string()),
        pa.field("retry_after_s", pa.float64()),
        pa.field("malformed_events", pa.int32()),
        pa.field("queue_wait_s", pa.float64()),
        pa.field("queue_wait_source", _WORD),
        pa.field("prefill_s", pa.float64()),
        pa.field("preemptions", pa.int32()),
        pa.field("recomputed_tokens", pa.int32()),
        pa.field("worker", pa.int32()),
        pa.field("target", _WORD),
    ]
)

METRICS_SCHEMA = pa.schema(
    [
        pa.field("t_s", pa.float64(), nullable=False),
        pa.field("target", _WORD, nullable=False),
        pa.field("engine", _WORD, nullable=False),
        pa.field("name", _WORD, nullable=False),
        pa.field("labels", _WORD, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)

SCHEDULE_SCHEMA = pa.schema(
    [
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("scheduled_s", pa.float64(), nullable=False),
        pa.field("lane", _WORD, nullable=False),
        pa.field("prompt_tokens", pa.int32(), nullable=False),
        pa.field("output_tokens", pa.int32(), nullable=False),
        pa.field("tenant", _WORD),
        pa.field("session", pa.string()),
        pa.field("turn", pa.int32()),
        pa.field("parent_id", pa.string()),
        pa.field("think_s", pa.float64()),
        pa.field("deadline_s", pa.float64()),
        pa.field("priority", pa.int32()),
    ]
)
"""What the run meant to offer, without bodies: enough to know, after any crash, what is missing."""


def schedule_rows(sends: Iterable[Send]) -> list[tuple[Any, ...]]:
    """Rows of `SCHEDULE_SCHEMA`."""
    return [
        (
            s.request_id,
            s.scheduled_s,
            s.lane,
            s.prompt_tokens,
            s.output_tokens,
            s.tenant,
            s.session,
            s.turn,
            s.parent_id,
            s.think_s,
            s.deadline_s,
            s.priority,
        )
        for s in sends
    ]
