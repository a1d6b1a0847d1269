"""`loadkit knee` wired from the rooms: one step after another, each a normal run, until it is known."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loadkit.analysis.knee.result import (
    KNEE_FILE,
    KNEE_SCHEMA,
    KneeResult,
    read_result,
    read_search,
)
from loadkit.analysis.knee.steps import Step, StepPlan, read_step
from loadkit.errors import InputError, RunError
from loadkit.knee.search import Search, estimate, next_step
from loadkit.knee.segments import segment
from loadkit.records import RunDir
from loadkit.trace import TraceTable, read_table, write

__all__ = ["KneeOptions", "Search", "find_knee"]

Measure = Callable[[Path, Path], None]
"""Replay the trace at the first path into a run directory at the second."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KneeOptions:
    trace: Path
    search: Search
    output: Path
    measure: Measure
    target: str
    """As it was asked for; a search that goes on must ask for the same."""
    trace_format: str | None = None
    scaled: Sequence[str] = ()
    """Lanes whose load is searched; none = all together."""
    lanes: Sequence[str] = ()
    """Lanes to send; none = all."""
    seed: int = 1
    budget_s: float = float("inf")
    """No step begins that would not end within it, going by the steps before."""


@dataclass(slots=True)
class _State:
    """What is kept in KNEE_FILE: enough to go on after any interruption."""

    path: Path
    asked: dict[str, Any]
    done: list[dict[str, Any]] = field(default_factory=list)

    def save(self, ended_why: str | None = None) -> None:
        hidden = self.path.with_suffix(".tmp")
        told = {
            "schema": KNEE_SCHEMA, "asked": self.asked, "steps": self.done, "ended_why": ended_why,
        }  # fmt: skip
        hidden.write_text(json.dumps(told, indent=1), "utf-8")
        hidden.replace(self.path)


def find_knee(options: KneeOptions, say: Say) -> KneeResult:
    """Search, or go on with a search that was interrupted. Raises LoadkitError.

    Ctrl-C ends it after the step that runs; every finished step is kept.
    """
    table = _with_lanes(read_table(options.trace, options.trace_format), options.lanes)
    state = _state(options, table)
    steps = [_read(options, told) for told in state.done]
    if steps:
        say(f"going on after {len(steps)} steps in {options.output}")
    say(_outlook(options, len(steps)))
    why = "all steps are done"
    while (plan := _within_budget(options, steps, state.done)) is not None:
        told = _run(options, table, plan, len(steps))
        step = _read(options, told)
        steps.append(step)
        state.done.append(told)
        state.save()
        say(_line(options.search, steps))
        if _client_is_the_limit(steps):
            why = "the client, not the server, was the limit of two steps in a row"
            break
    if next_step(options.search, steps) is not None and why == "all steps are done":
        why = f"the budget of {options.budget_s / 60:g} min is spent"
    state.save(why)
    return read_result(options.output)


def _with_lanes(table: TraceTable, lanes: Sequence[str]) -> TraceTable:
    known = set(table.table["lane"].cast("string").to_pylist())
    if unknown := set(lanes) - known:
        hint = f"its lanes: {', '.join(sorted(known))}"
        raise InputError(f"lane {min(unknown)!r} is not in the trace", hint=hint)
    return table


def _state(options: KneeOptions, table: TraceTable) -> _State:
    """The search in the output folder, or a new one. Raises InputError where another lies there."""
    search = asdict(options.search)
    asked = {
        "trace": str(options.trace),
        "trace_sha256": table.info.sha256,
        "target": options.target,
        "search": json.loads(json.dumps(search)),
        "scaled": list(options.scaled),
        "lanes": list(options.lanes),
        "seed": options.seed,
    }
    path = options.output / KNEE_FILE
    if not path.exists():
        if options.output.exists() and any(options.output.iterdir()):
            raise RunError(f"{options.output}: exists and is no search", hint="give a new -o")
        options.output.mkdir(parents=True, exist_ok=True)
        state = _State(path, asked)
        state.save()
        return state
    told = read_search(options.output)
    if told.get("asked") != asked:
        differs = sorted(k for k in asked if asked[k] != told.get("asked", {}).get(k))
        raise InputError(
            f"{options.output}: holds a search with another {', '.join(differs)}",
            hint="ask for the same again to go on with it, or give a new -o",
        )
    return _State(path, asked, told["steps"])


def _run(options: KneeOptions, table: TraceTable, plan: StepPlan, number: int) -> dict[str, Any]:
    name = f"{number + 1:02d}-{plan.role}-{plan.rate_rps:.4g}rps"
    folder = options.output / "steps" / name
    _set_aside(folder)
    folder.parent.mkdir(exist_ok=True)
    trace = folder.parent / f"{name}.parquet"
    rng = np.random.default_rng([options.seed, number])
    part = segment(table, plan.rate_rps, plan.warm_s + plan.measure_s, rng, options.scaled)
    write(part, trace, force=True)
    options.measure(trace, folder)
    run = RunDir(folder)
    manifest = run.manifest()
    if manifest.state != "finished":
        raise RunError(f"{folder}: {manifest.ended_why}", hint="the same command goes on from here")
    return {**asdict(plan), "run": f"steps/{name}", "spent_s": manifest.ended_s or 0.0}


def _set_aside(folder: Path) -> None:
    """A step that was interrupted stays readable under another name."""
    number = 1
    while folder.exists():
        other = folder.with_name(f"{folder.name}.interrupted-{number}")
        if not other.exists():
            folder.rename(other)
        number += 1


def _read(options: KneeOptions, told: dict[str, Any]) -> Step:
    plan = StepPlan(**{name: told[name] for name in StepPlan.__dataclass_fields__})
    return read_step(RunDir(options.output / told["run"]), plan, options.search.slo)


def _within_budget(
    options: KneeOptions, steps: Sequence[Step], done: Sequence[dict[str, Any]]
) -> StepPlan | None:
    """The next step that would end in time; the confirmation has its time kept free."""
    search = options.search
    left_s = options.budget_s - sum(told["spent_s"] for told in done)
    plan = next_step(search, steps)
    if plan is None or plan.role == "soak":
        kept_s = 0.0
    else:
        kept_s = search.warm_s + search.soak_s if search.soak_s else 0.0
    if plan is not None and _cost_s(plan, done) + kept_s > left_s:
        plan = next_step(search, steps, enough=True)
        if plan is not None and _cost_s(plan, done) > left_s:
            return None
    return plan


def _cost_s(plan: StepPlan, done: Sequence[dict[str, Any]]) -> float:
    """How long a step will take: its own time and what the last ones took to drain."""
    drains_s = [told["spent_s"] - told["warm_s"] - told["measure_s"] for told in done[-3:]]
    return plan.warm_s + plan.measure_s + max(0.0, float(np.mean(drains_s)) if drains_s else 0.0)


def _outlook(options: KneeOptions, done: int) -> str:
    search = options.search
    steps = len(search.rates_rps) or search.samples + 10
    minutes = (steps - done) * (search.warm_s + search.measure_s) / 60 + search.soak_s / 60
    bound = "" if options.budget_s == float("inf") else f", at most {options.budget_s / 60:g} min"
    return f"about {max(0, steps - done)} steps, {minutes:.0f} min and what the server takes to drain{bound}"


def _line(search: Search, steps: Sequence[Step]) -> str:
    step, known = steps[-1], estimate(search, steps)
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


def _client_is_the_limit(steps: Sequence[Step]) -> bool:
    return len(steps) >= 2 and not steps[-1].valid and not steps[-2].valid
