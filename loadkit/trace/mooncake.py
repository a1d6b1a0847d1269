"""Mooncake traces: `{"timestamp": ms, "input_length", "output_length", "hash_ids"}` per line.

A hash id stands for 512 tokens and for everything before them, in a namespace of its own per file.
Times of the conversation file sit on a 3 s grid: that is told, and changed only when asked.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from loadkit.errors import TraceError
from loadkit.trace import jsonl
from loadkit.trace.cells import bad_cell
from loadkit.trace.jsonl import JsonRow
from loadkit.trace.raw import TIME_UNITS_S, Raw, ReadOptions, as_seconds, joined
from loadkit.trace.schema import constant
from loadkit.trace.source import Source

BLOCK_TOKENS = 512

_OTHERS = {"chat_id", "parent_chat_id", "session_id"}
"""Keys of formats that look alike and mean something else: other units, other block sizes."""
_FACTS = {"licence": "Apache-2.0", "attribution": "Mooncake (Qin et al., FAST 2025)"}


def sniff(source: Source) -> bool:
    first = jsonl.first_object(source)
    return (
        {"timestamp", "input_length", "output_length"} <= first.keys()
        and isinstance(first["timestamp"], int | float)
        and isinstance(first.get("hash_ids"), list)
        and not _OTHERS & first.keys()
    )


def read(source: Source, options: ReadOptions) -> Raw:
    """Raises TraceError."""
    chunks = [_chunk(source, block) for block in jsonl.blocks(source)]
    columns = joined(chunks)
    rows = len(columns["stamp"])
    columns |= {
        "prefix_block": pa.array(np.full(rows, BLOCK_TOKENS, np.int32)),
        "prefix_ns": constant("mooncake", rows),
    }
    unit = options.time_unit or "ms"
    return Raw(
        source="mooncake",
        columns=columns,
        arrival_s=as_seconds(columns.pop("stamp")) * TIME_UNITS_S[unit],
        rebase=True,
        facts=_FACTS | {"time_resolution_s": TIME_UNITS_S[unit]},
        warnings=() if unit == "ms" else (f"times read as {unit}; this format's own unit is ms",),
    )


def _chunk(source: Source, block: list[JsonRow]) -> dict[str, Any]:
    prompt = [jsonl.token_count(source, row, "input_length") for row in block]
    return {
        "stamp": pa.array([jsonl.number(source, row, "timestamp") for row in block]),
        "prompt_tokens": pa.array(prompt, pa.int32()),
        "output_tokens": pa.array(
            [jsonl.token_count(source, row, "output_length") for row in block], pa.int32()
        ),
        "prefix_ids": pa.array(
            [_hash_ids(source, row, tokens) for row, tokens in zip(block, prompt, strict=True)],
            pa.list_(pa.int64()),
        ),
    }


def _hash_ids(source: Source, row: JsonRow, prompt_tokens: int) -> list[int]:
    """One id per block of 512; only an unfilled last block may be missing. Raises TraceError."""
    ids = row.values.get("hash_ids")
    if not isinstance(ids, list) or not all(type(i) is int and abs(i) < 2**63 for i in ids):
        raise bad_cell(source, row.line, "hash_ids", ids, "a list of integers")
    whole, rest = divmod(prompt_tokens, BLOCK_TOKENS)
    if len(ids) not in {whole, whole + (rest > 0)}:
        raise TraceError(
            f"{source.path}:{row.line}: {len(ids)} hash_ids for {prompt_tokens} tokens "
            f"(want {whole + (rest > 0)} blocks of {BLOCK_TOKENS})",
            hint="this is another format with the same keys: its blocks are not Mooncake's",
        )
    return ids
