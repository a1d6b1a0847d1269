"""What became of simulated requests, by columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from loadkit.core import Job
from loadkit.core import Sequence as EngineSequence

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class State(IntEnum):
    NEW = 0
    """Due after the horizon."""
    WAITING = 1
    RUNNING = 2
    FINISHED = 3
    REJECTED = 4
    EXPIRED = 5


_CODES = {state.name.lower(): int(state) for state in State}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """In arrival order. NaN = it never came to that."""

    arrival_s: Floats
    start_s: Floats
    """First start."""
    end_s: Floats
    state: Ints
    preemptions: Ints
    refusal: Sequence[str | None] | None = None
    """Why it was refused or dropped; None where nobody was."""
    retry_after_s: Sequence[float | None] | None = None


def of_jobs(jobs: Sequence[Job] | Sequence[EngineSequence]) -> Outcomes:
    state = np.array([_CODES[job.state] for job in jobs], np.int64)
    refused = bool((state >= State.REJECTED).any())
    return Outcomes(
        arrival_s=np.array([job.arrival_s for job in jobs]),
        start_s=np.array([job.first_scheduled_s for job in jobs], float),
        end_s=np.array([job.ended_s for job in jobs], float),
        state=state,
        preemptions=np.array([job.preemptions for job in jobs], np.int64),
        refusal=[job.refusal for job in jobs] if refused else None,
        retry_after_s=[job.retry_after_s for job in jobs] if refused else None,
    )


def rows_of(of: Outcomes, rows: Ints) -> Outcomes:
    """Some of them."""
    return Outcomes(
        of.arrival_s[rows],
        of.start_s[rows],
        of.end_s[rows],
        of.state[rows],
        of.preemptions[rows],
        None if of.refusal is None else [of.refusal[row] for row in rows],
        None if of.retry_after_s is None else [of.retry_after_s[row] for row in rows],
    )
