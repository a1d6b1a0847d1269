"""A million rows are summarised in seconds."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from loadkit.analysis import summarize
from loadkit.records import REQUESTS_SCHEMA, RunDir, to_table, write_table
from synthetic_run import answered, run_manifest

ROWS, CHUNKS = 1_000_000, 20


@pytest.mark.slow
def test_a_million_rows_with_twenty_chunks_each_take_under_half_a_minute(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run")
    one = answered("r", 0.0, tokens=CHUNKS)
    table = to_table([one], REQUESTS_SCHEMA).take(pa.array(np.zeros(ROWS, np.int64)))
    due_s = np.sort(np.random.default_rng(1).uniform(0, 3600, ROWS))
    for name in ("scheduled_s", "sent_s", "first_token_s", "last_token_s", "finished_s"):
        column = pa.array(due_s + (getattr(one, name) or 0.0))
        place = REQUESTS_SCHEMA.get_field_index(name)
        table = table.set_column(place, REQUESTS_SCHEMA.field(name), column)
    names = pa.array(np.char.add("r", np.arange(ROWS).astype(str)), pa.string())
    table = table.set_column(0, REQUESTS_SCHEMA.field(0), names)
    write_table(table, run.requests_dir / "part-00000.parquet")
    run_manifest([one], ended_s=3601.0).write(run.manifest_path)
    started_s = time.monotonic()
    lane = summarize(run).lanes[0]
    assert time.monotonic() - started_s < 30
    assert lane.completed == ROWS
    assert lane.latencies["itl"].n == ROWS * (CHUNKS - 1)
