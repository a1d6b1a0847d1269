"""Batch jobs: when they are submitted, how many rows, of which kind. All of it assumed (presets)."""

from dataclasses import dataclass

import numpy as np

from loadkit.trace.raw import Seconds
from loadkit.trace.synth.presets import Batch, JobKind
from loadkit.trace.synth.process import HOURS, Counts, Day, whole_lognormal

_JOBS_MIN = 4
"""A small trace has several small jobs rather than one of full size."""


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows by job, in submitted order."""

    job: Counts
    row: Counts
    arrival_s: Seconds
    deadline_s: Seconds
    prompt_tokens: Counts
    output_tokens: Counts
    template_tokens: Counts


def batch_rows(
    batch: Batch, rows: int, grid: Seconds, day: Day, rng: np.random.Generator
) -> BatchRows:
    """About `rows` rows (exactly, short of the cap per job) in jobs submitted on the grid's span."""
    sizes = _job_sizes(batch, rows, rng)
    submit_s = _submits_s(batch, sizes.size, grid, day, rng)
    kinds = rng.choice(len(batch.kinds), sizes.size, p=[kind.share for kind in batch.kinds])
    drawn = [
        _tokens(batch.kinds[kind], int(size), rng) for kind, size in zip(kinds, sizes, strict=True)
    ]
    window_s = min(batch.window_h / HOURS * day.day_s, float(grid[-1]))
    template = np.array([kind.template_tokens for kind in batch.kinds])
    return BatchRows(
        job=np.repeat(np.arange(sizes.size), sizes),
        row=np.concatenate([np.arange(size) for size in sizes]),
        arrival_s=np.repeat(submit_s, sizes),
        deadline_s=np.repeat(submit_s + window_s, sizes),
        prompt_tokens=np.concatenate([prompt for prompt, _ in drawn]),
        output_tokens=np.concatenate([output for _, output in drawn]),
        template_tokens=np.repeat(template[kinds], sizes),
    )


def _job_sizes(batch: Batch, rows: int, rng: np.random.Generator) -> Counts:
    """Log-normal sizes, scaled to sum to `rows`."""
    law = batch.rows_per_job
    typical = np.exp(law.mu + law.sigma**2 / 2)
    count = min(rows, max(_JOBS_MIN, round(rows / typical)))
    weights = rng.lognormal(law.mu, law.sigma, count)
    ends = np.rint(np.cumsum(weights) / weights.sum() * (rows - count)).astype(np.int64)
    sizes = np.diff(ends, prepend=0) + 1
    capped: Counts = np.minimum(sizes, batch.rows_per_job_max)
    return capped


def _submits_s(
    batch: Batch, count: int, grid: Seconds, day: Day, rng: np.random.Generator
) -> Seconds:
    """Uniform over the submit hours that the trace covers (else over all of it), sorted."""
    grid = grid[:-1]  # a job at the very end would lie outside
    first, last = batch.submit_hours
    open_now = (day.hours(grid) - first) % HOURS < last - first
    covered = np.cumsum(open_now) if open_now.any() else np.arange(1.0, grid.size + 1)
    submit_s = np.interp(rng.random(count) * covered[-1], covered, grid)
    hour_s = day.day_s / HOURS
    offset_s = (day.start_hour % 1) * hour_s
    on_hour_s = np.floor((submit_s + offset_s) / hour_s) * hour_s - offset_s
    punctual = (rng.random(count) < batch.on_the_hour_share) & (on_hour_s >= 0)
    submits_s: Seconds = np.where(punctual, on_hour_s, submit_s)
    return np.sort(submits_s)


def _tokens(kind: JobKind, count: int, rng: np.random.Generator) -> tuple[Counts, Counts]:
    own = whole_lognormal(
        kind.own_tokens, count, kind.prompt_tokens_max - kind.template_tokens, rng
    )
    output = whole_lognormal(kind.output_tokens, count, kind.output_tokens_max, rng)
    return kind.template_tokens + own, output
