"""`loadkit knee` wired from the rooms: one step after another, each a normal run, until it is known."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from loadkit.analysis.knee.cautions import INVALID_STEPS
from loadkit.analysis.knee.result import ALONE, KneeResult, read_result
from loadkit.analysis.knee.steps import Step, StepPlan, plan_of, read_step
from loadkit.errors import InputError, RunError
from loadkit.knee.kept import kept
from loadkit.knee.options import KneeOptions
from loadkit.knee.requests import sendable
from loadkit.knee.search import SAMPLE_WARMS, Search, estimate, missed_when_over, next_step
from loadkit.knee.segments import segment
from loadkit.records import STOPPED_EARLY, RunDir
from loadkit.trace import TraceTable, write

__all__ = ["KneeOptions", "Search", "find_both", "find_knee"]

Say = Callable[[str], None]

JUDGED_MIN_S = 1.0
USUAL_OTHER_STEPS = 10
"""Bracket, baseline and saturation of a search."""


def find_knee(options: KneeOptions, say: Say) -> KneeResult:
    """Search, or go on with a search that was interrupted. Raises LoadkitError.

    Ctrl-C ends the step that runs; every finished step is kept.
    """
    table = sendable(options, say)
    state = kept(options, table)
    steps = [_read(options, told) for told in state.done]
    earlier = len(steps)
    if steps:
        say(f"going on after {earlier} steps in {options.output}")
    say(_outlook(options, earlier))
    while (why := _invalid_twice(steps[earlier:])) is None:
        plan = _next(options, steps, state.done)
        if isinstance(plan, str):
            why = plan
            break
        told = _run(options, table, plan, len(steps))
        state.done.append(told)
        state.save()
        steps.append(_read(options, told))
        _require_told(options, steps)
        say(_line(options.search, steps))
    state.save(ended_why=why)
    return read_result(options.output)


def find_both(options: KneeOptions, say: Say) -> KneeResult:
    """First with the other lanes in the background, then alone; each has half of the budget.

    The second search is in the folder ALONE of the first. Raises LoadkitError.
    """
    if not options.scaled:
        raise InputError(
            "no lane is searched by itself", hint="--scale-lane interactive --and-alone"
        )
    half = replace(options, budget_s=options.budget_s / 2)
    say(f"{', '.join(options.scaled)} with the other lanes in the background")
    find_knee(half, say)
    say(f"{', '.join(options.scaled)} alone")
    alone = replace(half, output=options.output / ALONE, scaled=(), lanes=tuple(options.scaled))
    find_knee(alone, say)
    return read_result(options.output)


def _run(options: KneeOptions, table: TraceTable, plan: StepPlan, number: int) -> dict[str, Any]:
    name = f"{number + 1:02d}-{plan.role}-{plan.rate_rps:.4g}rps"
    folder = options.output / "steps" / name
    _set_aside(folder)
    folder.parent.mkdir(exist_ok=True)
    trace = folder.parent / f"{name}.parquet"
    rng = np.random.default_rng([options.seed, number])
    part = segment(table, plan.rate_rps, plan.warm_s + plan.measure_s, rng, options.scaled)
    write(part, trace, force=True)
    began_s = time.monotonic()
    options.measure(trace, folder, _hopeless_missed(options.search, plan, part))
    took_s = time.monotonic() - began_s
    run = RunDir(folder)
    manifest = run.manifest()
    why, ended_s = manifest.ended_why or "", manifest.ended_s or 0.0
    if why.startswith(STOPPED_EARLY):
        # Of what came just before the end it is not known whether it would have missed.
        judged_s = ended_s - plan.warm_s - options.search.slo.threshold_s
        measure_s = min(plan.measure_s, max(judged_s, JUDGED_MIN_S))
        plan = replace(plan, measure_s=measure_s, cut=True)
    elif manifest.state != "finished":
        raise RunError(f"{folder}: {why}", hint="the same command goes on from here")
    # With what a live step needs before and after; a simulated one spends virtual time.
    return {**asdict(plan), "run": f"steps/{name}", "spent_s": max(took_s, ended_s)}


def _hopeless_missed(search: Search, plan: StepPlan, part: TraceTable) -> int | None:
    """So many misses put a step of the bracket over, whatever comes. Other steps are wanted whole."""
    if plan.role != "bracket":
        return None
    columns = part.table
    measured = pc.and_(
        pc.equal(columns["lane"].cast("string"), search.slo.lane),
        pc.greater_equal(columns["arrival_s"], plan.warm_s),
    )
    return missed_when_over(search, pc.sum(measured).as_py() or 0)


def _set_aside(folder: Path) -> None:
    """A step that was interrupted stays readable under another name."""
    number = 1
    while folder.exists():
        other = folder.with_name(f"{folder.name}.interrupted-{number}")
        if not other.exists():
            folder.rename(other)
        number += 1


def _read(options: KneeOptions, told: dict[str, Any]) -> Step:
    run = RunDir(options.output / told["run"])
    return read_step(run, plan_of(told), options.search.slo, options.scaled)


def _require_told(options: KneeOptions, steps: Sequence[Step]) -> None:
    """Raises RunError where no answer of any step has the SLO's metric."""
    if steps and all(step.is_silent for step in steps):
        slo = options.search.slo
        raise RunError(
            f"the target does not tell {slo.metric} of lane {slo.lane!r}",
            hint="choose a metric that it tells, such as ttft or e2e, and a new -o",
        )


def _next(
    options: KneeOptions, steps: Sequence[Step], done: Sequence[dict[str, Any]]
) -> StepPlan | str:
    """The next step, or why there is none. The confirmation has its time kept free."""
    search = options.search
    left_s = options.budget_s - sum(told["spent_s"] for told in done)
    plan = next_step(search, steps)
    if plan is None:
        return "all steps are done"
    kept_s = 0.0
    if search.soak_s and plan.role != "soak":
        kept_s = _cost_s(replace(plan, role="soak", measure_s=search.soak_s), done)
    if _cost_s(plan, done) + kept_s <= left_s:
        return plan
    confirmation = next_step(search, steps, enough=True)
    if confirmation is not None and _cost_s(confirmation, done) <= left_s:
        return confirmation
    return f"the budget of {options.budget_s / 60:.3g} min is spent"


def _cost_s(plan: StepPlan, done: Sequence[dict[str, Any]]) -> float:
    """How long a step will take: its own time and what the last ones took to drain."""
    drains_s = [told["spent_s"] - told["warm_s"] - told["measure_s"] for told in done[-3:]]
    return plan.warm_s + plan.measure_s + max(0.0, float(np.mean(drains_s)) if drains_s else 0.0)


def _outlook(options: KneeOptions, done: int) -> str:
    search = options.search
    others = 0 if search.rates_rps else USUAL_OTHER_STEPS
    steps = (len(search.rates_rps) or search.samples) + others
    mean_s = search.warm_s * (SAMPLE_WARMS * (steps - others) + others) / steps + search.measure_s
    minutes = (max(0, steps - done) * mean_s + search.soak_s) / 60
    bound = "" if options.budget_s == float("inf") else f", at most {options.budget_s / 60:.3g} min"
    return f"about {max(0, steps - done)} steps, {minutes:.0f} min and what the server takes to drain{bound}"


def _line(search: Search, steps: Sequence[Step]) -> str:
    step = steps[-1]
    known = estimate(search, [other for other in steps if other.plan.role != "soak"])
    share = step.missed(search.slo.threshold_s)
    text = (
        f"step {len(steps)} {step.plan.role}: {step.plan.rate_rps:.4g} rps, {share.missed} of "
        f"{share.requests} missed the SLO, {step.stability}{'' if step.valid else ', INVALID'}"
    )
    if known.rate_rps and known.low_rps and known.high_rps:
        return (
            f"{text}; capacity {known.rate_rps:.4g} ({known.low_rps:.4g} to {known.high_rps:.4g})"
        )
    return f"{text}; capacity {known.status}"


def _invalid_twice(steps: Sequence[Step]) -> str | None:
    if len(steps) < 2 or steps[-1].valid or steps[-2].valid:
        return None
    return f"{INVALID_STEPS}: most often the client, not the server, is then the limit"
