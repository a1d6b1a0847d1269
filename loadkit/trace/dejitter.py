"""Spread times that sit on a grid: off unless asked, seeded, and written into the metadata."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadkit.trace.raw import Seconds
from loadkit.trace.table import TraceTable


def dejitter(trace: TraceTable, width_s: float, seed: int) -> TraceTable:
    """Add Uniform(0, width_s) to every arrival, one draw per session or batch job.

    The rate over anything wider than the grid is kept; the order of turns is kept; gaps inside a
    grid cell become invented, which is why the metadata says so.
    """
    table = trace.table
    keys = pc.coalesce(table["batch_id"], table["session"], table["request_id"]).combine_chunks()
    encoded = keys.dictionary_encode()
    draws_s = np.random.default_rng(seed).uniform(0.0, width_s, len(encoded.dictionary))
    added_s = draws_s[encoded.indices.to_numpy()]
    moved = {"arrival_s": table["arrival_s"].to_numpy() + added_s}
    if table["deadline_s"].null_count < trace.rows:
        moved["deadline_s"] = table["deadline_s"].to_numpy() + added_s
    meta = {**trace.meta, "dejitter": {"law": "uniform", "width_s": width_s, "seed": seed}}
    repairs = {**trace.info.repairs, "dejittered": trace.rows}
    info = replace(trace.info, repairs=repairs)
    return TraceTable(_resorted(table, moved), info, meta | {"repairs": repairs})


def _resorted(table: pa.Table, moved: dict[str, Seconds]) -> pa.Table:
    order = np.argsort(moved["arrival_s"], kind="stable")
    sorted_table = table.take(pa.array(order))
    replaced: list[tuple[str, Any]] = [
        ("seq", np.arange(table.num_rows)),
        *((name, values[order]) for name, values in moved.items()),
    ]
    for name, values in replaced:
        index = table.schema.get_field_index(name)
        column = pa.array(values, from_pandas=True)  # NaN where the deadline was null
        sorted_table = sorted_table.set_column(index, table.schema.field(index), column)
    return sorted_table
