"""Several policies over one workload, each on a core of its own: they know nothing of one another."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from loadkit.core import Policy
from loadkit.sim import Outcomes, SlotOptions, SlotResult, Workload, simulate_slots

_LEAST_JOBS = 20_000
"""Fewer are done before a second process has begun."""


class _Work(NamedTuple):
    jobs: Workload
    policies: Sequence[Policy]
    options: SlotOptions


_work: _Work | None = None
"""Of this process; a forked one finds here what nobody could send it cheaply."""


def slot_results(
    jobs: Workload, policies: Sequence[Policy], options: SlotOptions
) -> list[SlotResult]:
    """In the order of the policies. Raises ValueError, naming the policy, where one needs more than slots."""
    cores = min(len(policies), len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1)
    work = _Work(jobs, policies, options)
    if cores < 2 or len(jobs) < _LEAST_JOBS:
        return [_one(work, number) for number in range(len(policies))]
    fork = get_context("fork")
    with ProcessPoolExecutor(cores, fork, initializer=_keep, initargs=(work,)) as pool:
        found = pool.map(_outcomes, range(len(policies)))
        return [
            SlotResult(policy, options, jobs, outcomes, samples)
            for policy, (outcomes, samples) in zip(policies, found, strict=True)
        ]


def _keep(work: _Work) -> None:
    global _work  # noqa: PLW0603 (set once, in a process that does nothing else)
    _work = work


def _outcomes(number: int) -> tuple[Outcomes, Sequence[tuple[float, float]]]:
    assert _work
    result = _one(_work, number)
    return result.outcomes, result.busy_samples


def _one(work: _Work, number: int) -> SlotResult:
    policy = work.policies[number]
    try:
        return simulate_slots(work.jobs, policy, work.options)
    except ValueError as error:
        raise ValueError(f"{policy.name}: {error}") from error
