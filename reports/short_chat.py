"""A trace for searches on slow servers: twenty minutes of short questions, Poisson at 10 a second.

An engine on one CPU is far too slow for real conversations; of these a step of a minute still holds hundreds.
The same rows every time.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DURATION_S, RATE_RPS = 1200.0, 10.0
PROMPT_TOKENS = (48.0, 0.7, 256)
"""Mean of a lognormal law, standard deviation of its logarithm, most."""
OUTPUT_TOKENS = (24.0, 0.7, 128)


def lengths(law: tuple[float, float, int], count: int, rng: np.random.Generator) -> pa.Array:
    mean, sigma, most = law
    drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    return pa.array(np.clip(drawn, 1, most).astype(np.int32))


def write(path: Path) -> None:
    rng = np.random.default_rng(7)
    count = rng.poisson(DURATION_S * RATE_RPS)
    table = pa.table(
        {
            "request_id": [f"q{number}" for number in range(count)],
            "arrival_s": np.sort(rng.uniform(0, DURATION_S, count)).round(4),
            "lane": ["interactive"] * count,
            "prompt_tokens": lengths(PROMPT_TOKENS, count, rng),
            "output_tokens": lengths(OUTPUT_TOKENS, count, rng),
        }
    )
    pq.write_table(table, path)
