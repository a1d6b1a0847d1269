"""`loadkit sim` wired from the rooms: a trace, some policies, and a run of each, on disk where asked."""

from pathlib import Path
from typing import Any

from loadkit import schedule, sim
from loadkit.core import Policy
from loadkit.errors import InputError
from loadkit.records import RunDir
from loadkit.schedule import Schedule
from loadkit.sim import EngineModel, SlotResult
from loadkit.simulate.jobs import Say, sends_of, service_factors, work_sha256, workload
from loadkit.simulate.options import Level, SimOptions, level_of
from loadkit.simulate.runs import Offered, SimulatedRun
from loadkit.simulate.side_by_side import slot_results
from loadkit.trace import TraceTable, read_table

__all__ = ["Level", "SimOptions", "SimulatedRun", "simulate"]


def simulate(options: SimOptions, say: Say) -> list[SimulatedRun]:
    """A run of each policy, in the order asked. Raises TraceError, InputError, RunError."""
    if options.output is not None:
        RunDir.require_new(options.output)  # says so before the work is done
    table = read_table(options.trace)
    level = level_of(options, timed=table.table["service_s"].null_count == 0)
    runs = (_slot_level if level == "slot" else _token_level)(options, table, say)
    for run in runs if options.output else ():
        run.write()
        run.numbers["run"] = str(run.path)
    return runs


def _slot_level(options: SimOptions, table: TraceTable, say: Say) -> list[SimulatedRun]:
    jobs = workload(options, table, say)
    work: dict[str, Any] = {"work_sha256": work_sha256(table)}
    if factors := service_factors(jobs, options.batch_service):
        work["service_factors"] = factors
    timed = table.table["service_s"].null_count == 0
    offered = Offered(table.info, options, lambda: sends_of(jobs), work, timed)
    del table
    try:
        results = slot_results(jobs, options.policies, options.slots)
    except ValueError as error:
        raise InputError(str(error), hint="or use --level token") from error
    return [_of_slots(options, result, offered) for result in results]


def _of_slots(options: SimOptions, result: SlotResult, offered: Offered) -> SimulatedRun:
    numbers = sim.summarize_jobs(result, options.late_s)
    return SimulatedRun(_path(options, result.policy), result, numbers, offered)


def _token_level(options: SimOptions, table: TraceTable, say: Say) -> list[SimulatedRun]:
    planned = schedule.build(table.to_trace(), options.transforms)
    for reason, count in planned.dropped.items():
        say(f"not simulated: {count:,} requests, {reason}")
    offered = Offered(table.info, options, lambda: planned.sends)
    return [_of_tokens(options, policy, planned, offered) for policy in options.policies]


def _of_tokens(
    options: SimOptions, policy: Policy, planned: Schedule, offered: Offered
) -> SimulatedRun:
    model = EngineModel(options.limits, options.cost)
    result = sim.simulate_tokens(planned.sends, policy, model, options.slots.horizon_s)
    numbers = sim.summarize_served(result, options.late_s)
    return SimulatedRun(_path(options, policy), result, numbers, offered)


def _path(options: SimOptions, policy: Policy) -> Path:
    """Of many policies, each has a folder in the output."""
    name = "".join(
        letter if letter.isalnum() or letter in "+-=." else "_" for letter in policy.name
    )
    if options.output is None:
        return Path(name)
    return options.output / name if len(options.policies) > 1 else options.output
