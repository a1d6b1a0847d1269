"""`loadkit sim` wired from the rooms: a trace, some policies, and a run directory each where asked."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from loadkit import __version__, schedule, sim
from loadkit.core import PROFILES, EngineLimits, Policy, StepCost
from loadkit.core.orders import is_deferrable
from loadkit.errors import InputError
from loadkit.model import MetricSample, RequestRecord, Send, TraceInfo
from loadkit.records import (
    METRICS_SCHEMA,
    REQUESTS_SCHEMA,
    SCHEDULE_SCHEMA,
    Manifest,
    PartWriter,
    RunDir,
    machine,
    schedule_rows,
    to_table,
    write_table,
)
from loadkit.schedule import Schedule, Transforms
from loadkit.sim import EngineModel, SlotOptions, Workload
from loadkit.trace import TraceTable, read_table

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SimOptions:
    trace: Path
    policies: Sequence[Policy]
    level: Literal["slot", "token"] | None = None
    """None = slot where the trace has service times, else token."""
    slots: SlotOptions = field(default_factory=SlotOptions)
    limits: EngineLimits = field(default_factory=EngineLimits)
    cost: StepCost = PROFILES["h100-8b"].cost
    transforms: Transforms = field(default_factory=Transforms)
    batch_service: float = 1.0
    """Slot level: factor on the service times of batch lanes."""
    late_s: float = 2.0
    output: Path | None = None
    command: Sequence[str] = ()


def simulate(options: SimOptions, say: Say) -> list[dict[str, Any]]:
    """The `policies` of the command's JSON, in the order asked. Raises TraceError, InputError, RunError."""
    if options.output is not None and options.output.exists():
        RunDir.create(options.output)  # says so before the work is done
    table = read_table(options.trace)
    timed = table.table["service_s"].null_count == 0
    level = options.level or ("slot" if timed else "token")
    return (_slot_level if level == "slot" else _token_level)(options, table, say)


def _slot_level(options: SimOptions, table: TraceTable, say: Say) -> list[dict[str, Any]]:
    workload = _workload(options, table, say)
    info = table.info
    del table
    sends = _sends(workload) if options.output else []
    told = []
    for policy in options.policies:
        try:
            result = sim.simulate_slots(workload, policy, options.slots)
        except ValueError as error:
            raise InputError(f"{policy.name}: {error}", hint="or use --level token") from error
        numbers = sim.summarize_jobs(result, options.late_s)
        if options.output:
            rows, samples = list(sim.slot_rows(result, sends)), list(sim.slot_samples(result))
            numbers["run"] = _write(options, policy, info, sends, rows, samples, result.end_s)
        told.append(numbers)
    return told


def _token_level(options: SimOptions, table: TraceTable, say: Say) -> list[dict[str, Any]]:
    planned = schedule.build(table.to_trace(), options.transforms)
    for reason, count in planned.dropped.items():
        say(f"not simulated: {count:,} requests, {reason}")
    model = EngineModel(options.limits, options.cost)
    told = []
    for policy in options.policies:
        result = sim.simulate_tokens(planned.sends, policy, model, options.slots.horizon_s)
        numbers = sim.summarize_served(result, options.late_s)
        if options.output:
            rows, samples = list(sim.token_rows(result)), list(sim.token_samples(result))
            numbers["run"] = _write(
                options, policy, table.info, planned.sends, rows, samples, result.end_s
            )
        told.append(numbers)
    return told


def _workload(options: SimOptions, trace: TraceTable, say: Say) -> Workload:
    """The trace by columns, with window, lanes and speed applied. Raises InputError."""
    transforms, table = options.transforms, trace.table
    if transforms.scale != 1.0:
        raise InputError("--scale deals in sessions, slot level in jobs", hint="--level token")
    start_s = transforms.window_s[0]
    names, codes = _lanes(table)
    rows = _chosen(transforms, table, names, codes)
    batch = np.array([is_deferrable(lane) for lane in names])[codes]
    service_s = _service_s(options, trace, say) * np.where(batch, options.batch_service, 1.0)
    taken = table if len(rows) == len(codes) else table.take(rows)
    deadline_s = None
    if taken["deadline_s"].null_count < len(rows):
        deadline_s = (taken["deadline_s"].to_numpy() - start_s) / transforms.speedup
    return Workload(
        request_id=taken["request_id"].to_pylist(),
        arrival_s=(taken["arrival_s"].to_numpy() - start_s) / transforms.speedup,
        service_s=service_s[rows],
        lane_names=names,
        lane_code=codes[rows],
        tenant=_told(taken, "tenant"),
        priority=_told(taken, "priority"),
        deadline_s=deadline_s,
        tokens=_tokens(taken),
    )


def _lanes(table: Any) -> tuple[list[str], Any]:
    """Names, in the order of their first row, and the index into them of every row."""
    coded = table["lane"].cast("string").combine_chunks().dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _chosen(transforms: Transforms, table: Any, names: list[str], codes: Any) -> Any:
    """Row numbers. Raises InputError where none is left."""
    start_s, end_s = transforms.window_s
    unknown = set(transforms.lanes) - set(names)
    if unknown:
        hint = f"its lanes: {', '.join(names)}"
        raise InputError(f"lane {min(unknown)!r} is not in the trace", hint=hint)
    arrival_s = table["arrival_s"].to_numpy()
    wanted = np.array([not transforms.lanes or name in transforms.lanes for name in names])
    rows = np.flatnonzero((arrival_s >= start_s) & (arrival_s < end_s) & wanted[codes])
    if not len(rows):
        raise InputError("nothing is left to simulate", hint="see --window and --lane")
    return rows


def _tokens(table: Any) -> list[int] | None:
    """Prompt and output together, where every row has both."""
    if table["prompt_tokens"].null_count or table["output_tokens"].null_count:
        return None
    total = table["prompt_tokens"].to_numpy() + table["output_tokens"].to_numpy()
    tokens: list[int] = total.tolist()
    return tokens


def _told(table: Any, name: str) -> list[Any] | None:
    column = table[name]
    return None if column.null_count == len(column) else column.to_pylist()


def _service_s(options: SimOptions, trace: TraceTable, say: Say) -> Any:
    """The trace's own, or what the engine's profile gives for its tokens with all slots busy."""
    table = trace.table
    if not table["service_s"].null_count:
        return table["service_s"].to_numpy()
    if table["prompt_tokens"].null_count or table["output_tokens"].null_count:
        raise InputError(
            f"{options.trace}: has neither service_s nor both token counts in every row",
            hint="add a column service_s: the seconds that a request holds its slot",
        )
    cost, slots = options.cost, options.slots.slots
    token_s = cost.base_s + slots * cost.decode_s_per_seq
    say(f"service times from the profile: {cost.prefill_s_per_token * 1e6:.3g} us a prompt token, "
        f"{token_s * 1e3:.3g} ms an output token")  # fmt: skip
    prompt, output = (table[n].to_numpy() for n in ("prompt_tokens", "output_tokens"))
    return np.maximum(prompt * cost.prefill_s_per_token + output * token_s, 1e-6)


def _sends(workload: Workload) -> list[Send]:
    """The schedule of a slot-level run; token counts are 0 where the trace has none."""
    count = len(workload)
    none: list[None] = [None] * count
    counts = workload.tokens or [0] * count
    rows = zip(
        workload.request_id,
        workload.arrival_s.tolist(),
        workload.lanes(),
        counts,
        workload.tenant or none,
        workload.deadlines() or none,
        workload.priority or none,
        strict=True,
    )
    return [
        Send(name, at_s, lane, tokens, 0, tenant=who, deadline_s=due_s, priority=priority)
        for name, at_s, lane, tokens, who, due_s, priority in rows
    ]


def _write(  # noqa: PLR0913, PLR0917
    options: SimOptions,
    policy: Policy,
    info: TraceInfo,
    sends: Sequence[Send],
    rows: list[RequestRecord],
    samples: list[MetricSample],
    end_s: float,
) -> str:
    """A run directory like that of a live run. Raises RunError."""
    assert options.output
    path = options.output
    if len(options.policies) > 1:
        path /= _file_name(policy.name)
    run = RunDir.create(path)
    write_table(to_table(schedule_rows(sends), SCHEDULE_SCHEMA), run.schedule_path)
    for folder, schema, facts in (
        (run.requests_dir, REQUESTS_SCHEMA, rows),
        (run.metrics_dir, METRICS_SCHEMA, samples),
    ):
        writer = PartWriter(folder, schema)
        writer.add(facts)
        writer.close_part()
    _manifest(options, policy, info, sends, end_s).write(run.manifest_path)
    run.remove_work_dir()
    return str(path)


def _file_name(policy: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "+-=." else "_" for letter in policy)


def _manifest(
    options: SimOptions, policy: Policy, info: TraceInfo, sends: Sequence[Send], end_s: float
) -> Manifest:
    planned = Schedule(tuple(sends), options.transforms, sends[-1].scheduled_s if sends else 0.0)
    window = options.transforms.window_s
    transforms = asdict(options.transforms) | {
        "window_s": None if window == (0.0, float("inf")) else window,
        "batch_service": options.batch_service,
    }
    return Manifest(
        loadkit_version=__version__,
        command=tuple(options.command),
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        trace={**asdict(info), "rows": info.rows_read - sum(info.drops.values())},
        transforms=transforms,
        schedule=schedule.describe(planned),
        target={
            "url": "sim",
            "engine": "sim",
            "version": __version__,
            "policy": policy.name,
            "capacity": {
                "max_num_seqs": options.slots.slots,
                "kv_blocks": options.limits.kv_blocks,
            },
            "slots": asdict(options.slots),
            "limits": asdict(options.limits),
            "cost": asdict(options.cost),
        },
        seed=options.transforms.seed,
        workers=0,
        machine=machine(),
        anchor={},
        limits={"horizon_s": options.slots.horizon_s},
        state="finished",
        ended_s=end_s,
        ended_why="simulated in virtual time",
    )
