"""A trace for searches on slow servers: twenty minutes of short questions, Poisson at 10 a second, and beside
them, where it is asked for, longer batch jobs at one every two seconds.

An engine on one CPU is far too slow for real conversations; of these a step of a minute still holds hundreds.
The same rows every time.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DURATION_S, RATE_RPS = 1200.0, 10.0
BATCH_RPS = 0.5
Law = tuple[float, float, int]
PROMPT_TOKENS: Law = (48.0, 0.7, 256)
"""Mean of a lognormal law, standard deviation of its logarithm, most."""
OUTPUT_TOKENS: Law = (24.0, 0.7, 128)
BATCH_OUTPUT_TOKENS: Law = (200.0, 0.5, 800)


def lengths(law: Law, count: int, rng: np.random.Generator) -> pa.Array:
    mean, sigma, most = law
    drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    return pa.array(np.clip(drawn, 1, most).astype(np.int32))


def rows(lane: str, rate_rps: float, output: Law, rng: np.random.Generator) -> pa.Table:
    count = rng.poisson(DURATION_S * rate_rps)
    return pa.table(
        {
            "request_id": [f"{lane[0]}{number}" for number in range(count)],
            "arrival_s": np.sort(rng.uniform(0, DURATION_S, count)).round(4),
            "lane": [lane] * count,
            "prompt_tokens": lengths(PROMPT_TOKENS, count, rng),
            "output_tokens": lengths(output, count, rng),
        }
    )


def write(path: Path, *, batch: bool = False) -> None:
    rng = np.random.default_rng(7)
    tables = [rows("interactive", RATE_RPS, OUTPUT_TOKENS, rng)]
    if batch:
        tables.append(rows("batch", BATCH_RPS, BATCH_OUTPUT_TOKENS, rng))
    pq.write_table(pa.concat_tables(tables).sort_by("arrival_s"), path)
