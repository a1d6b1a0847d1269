"""`loadkit knee` wired from the rooms: one step after another, each a normal run, until it is known."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadkit.analysis.knee.cautions import CLIENT_LIMIT
from loadkit.analysis.knee.result import (
    ALONE,
    KNEE_FILE,
    KNEE_SCHEMA,
    KneeResult,
    read_result,
    read_search,
)
from loadkit.analysis.knee.steps import Step, StepPlan, read_step
from loadkit.errors import InputError, RunError
from loadkit.knee.search import SAMPLE_WARMS, Search, estimate, missed_when_over, next_step
from loadkit.knee.segments import require_length, segment
from loadkit.records import STOPPED_EARLY, RunDir
from loadkit.trace import TraceTable, read_table, write

__all__ = ["KneeOptions", "Search", "find_both", "find_knee"]

Measure = Callable[[Path, Path, int | None], None]
"""Replay the trace at the first path into a run directory at the second.

May stop as soon as so many requests that were due after the warm-up have missed the SLO; None = never.
"""
Say = Callable[[str], None]

JUDGED_MIN_S = 1.0
USUAL_OTHER_STEPS = 10
"""Bracket, baseline and saturation of a search."""


@dataclass(frozen=True, slots=True)
class KneeOptions:
    trace: Path
    search: Search
    output: Path
    measure: Measure
    target: str
    """As it was asked for; a search that goes on must ask for the same."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the target or the client, plain JSON values; the same holds for them."""
    trace_format: str | None = None
    scaled: Sequence[str] = ()
    """Lanes whose load is searched; none = all together."""
    lanes: Sequence[str] = ()
    """Lanes to send; none = all."""
    seed: int = 1
    max_model_len: int | None = None
    """Most tokens of a request; longer ones are left out, for they would miss at any load."""
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
    table = _sendable(options, say)
    state = _state(options, table)
    steps = [_read(options, told) for told in state.done]
    earlier = len(steps)
    if steps:
        say(f"going on after {earlier} steps in {options.output}")
    say(_outlook(options, earlier))
    while (why := _client_is_the_limit(steps[earlier:])) is None:
        plan = _next(options, steps, state.done)
        if isinstance(plan, str):
            why = plan
            break
        told = _run(options, table, plan, len(steps))
        state.done.append(told)
        state.save()
        steps.append(_read(options, told))
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


def _sendable(options: KneeOptions, say: Say) -> TraceTable:
    """The requests to draw from. Raises TraceError, or InputError where lanes or all requests are missing."""
    table = read_table(options.trace, options.trace_format)
    known = set(table.table["lane"].cast("string").to_pylist())
    searched = options.search.slo.lane
    for lane in (*options.lanes, *options.scaled, searched):
        if lane not in known:
            hint = f"its lanes: {', '.join(sorted(known))}"
            raise InputError(f"lane {lane!r} is not in the trace", hint=hint)
    for lanes, flag in ((options.lanes, "--lane"), (options.scaled, "--scale-lane")):
        if lanes and searched not in lanes:
            raise InputError(f"the SLO's lane {searched!r} is not among those of {flag}")
    kept = _fitting(_of_lanes(table, options.lanes), options.max_model_len, say)
    search = options.search
    require_length(kept, SAMPLE_WARMS * search.warm_s + search.measure_s)
    return kept


def _of_lanes(table: TraceTable, lanes: Sequence[str]) -> TraceTable:
    if not lanes:
        return table
    names = table.table["lane"].cast("string")
    return replace(table, table=table.table.filter(pc.is_in(names, pa.array(lanes))))


def _fitting(table: TraceTable, limit: int | None, say: Say) -> TraceTable:
    if limit is None:
        return table
    columns = table.table
    tokens = pc.add(
        pc.coalesce(columns["prompt_tokens"], 0), pc.coalesce(columns["output_tokens"], 0)
    )
    fitting = columns.filter(pc.less_equal(tokens, limit))
    left_out = len(columns) - len(fitting)
    what = f"of {len(columns):,} requests are longer than the context of {limit:,} tokens"
    if not len(fitting):
        hint = "start the server with a larger context, or choose a shorter trace"
        raise InputError(f"{left_out:,} {what}", hint=hint)
    if left_out:
        say(f"{left_out:,} {what}: left out, for they would miss at any load")
    return replace(table, table=fitting)


def _state(options: KneeOptions, table: TraceTable) -> _State:
    """The search in the output folder, or a new one. Raises InputError where another lies there."""
    search = asdict(options.search)
    asked = {
        "trace": str(options.trace),
        "trace_sha256": table.info.sha256,
        "target": options.target,
        "settings": json.loads(json.dumps(options.settings)),
        "search": json.loads(json.dumps(search)),
        "scaled": list(options.scaled),
        "lanes": list(options.lanes),
        "seed": options.seed,
        "max_model_len": options.max_model_len,
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
    options.measure(trace, folder, _hopeless_missed(options.search, plan, part))
    run = RunDir(folder)
    manifest = run.manifest()
    why, ended_s = manifest.ended_why or "", manifest.ended_s or 0.0
    if why.startswith(STOPPED_EARLY):
        # Of what came just before the end it is not known whether it would have missed.
        judged_s = ended_s - plan.warm_s - options.search.slo.threshold_s
        plan = replace(plan, measure_s=min(plan.measure_s, max(judged_s, JUDGED_MIN_S)))
    elif manifest.state != "finished":
        raise RunError(f"{folder}: {why}", hint="the same command goes on from here")
    return {**asdict(plan), "run": f"steps/{name}", "spent_s": ended_s}


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
    plan = StepPlan(**{name: told[name] for name in StepPlan.__dataclass_fields__})
    run = RunDir(options.output / told["run"])
    return read_step(run, plan, options.search.slo, options.scaled)


def _next(
    options: KneeOptions, steps: Sequence[Step], done: Sequence[dict[str, Any]]
) -> StepPlan | str:
    """The next step, or why there is none. The confirmation has its time kept free."""
    search = options.search
    left_s = options.budget_s - sum(told["spent_s"] for told in done)
    plan = next_step(search, steps)
    if plan is None:
        return "all steps are done"
    soak_s = SAMPLE_WARMS * search.warm_s + search.soak_s
    kept_s = soak_s if search.soak_s and plan.role != "soak" else 0.0
    if _cost_s(plan, done) + kept_s <= left_s:
        return plan
    confirmation = next_step(search, steps, enough=True)
    if confirmation is not None and _cost_s(confirmation, done) <= left_s:
        return confirmation
    return f"the budget of {options.budget_s / 60:g} min is spent"


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
    bound = "" if options.budget_s == float("inf") else f", at most {options.budget_s / 60:g} min"
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


def _client_is_the_limit(steps: Sequence[Step]) -> str | None:
    if len(steps) < 2 or steps[-1].valid or steps[-2].valid:
        return None
    return f"{CLIENT_LIMIT} of two steps in a row"
