"""A simulated policy as a run: the tables of a run directory, made when they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from loadkit import __version__, schedule, sim
from loadkit.model import Send, TraceInfo
from loadkit.records import (
    METRICS_SCHEMA,
    REQUESTS_SCHEMA,
    SCHEDULE_SCHEMA,
    Manifest,
    RunDir,
    machine,
    schedule_rows,
    to_table,
    write_table,
)
from loadkit.schedule import Schedule
from loadkit.sim import SlotResult, TokenResult
from loadkit.simulate.options import SimOptions

_PART = "part-00000.parquet"


@dataclass(frozen=True)
class Offered:
    """What every policy is given; described once, and only where somebody asks."""

    info: TraceInfo
    options: SimOptions
    make_sends: Callable[[], Sequence[Send]]
    work: Mapping[str, Any] = field(default_factory=dict)
    """More about the work, for the manifest."""
    timed: bool = False
    """The trace tells how long each job holds its slot: no profile of an engine was asked."""

    @cached_property
    def sends(self) -> Sequence[Send]:
        return self.make_sends()

    @cached_property
    def table(self) -> pa.Table:
        return to_table(schedule_rows(self.sends), SCHEDULE_SCHEMA)

    @cached_property
    def described(self) -> dict[str, Any]:
        last_s = self.sends[-1].scheduled_s if self.sends else 0.0
        planned = Schedule(tuple(self.sends), self.options.transforms, last_s)
        return {**schedule.describe(planned), **self.work}


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    path: Path
    """Where it stands, or would."""
    result: SlotResult | TokenResult
    numbers: dict[str, Any]
    """Its element of `policies` in the command's JSON."""
    offered: Offered

    def manifest(self) -> Manifest:
        return _manifest(self.offered, self.result)

    def requests(self) -> pa.Table:
        if isinstance(self.result, TokenResult):
            return to_table(list(sim.token_rows(self.result)), REQUESTS_SCHEMA)
        columns = sim.slot_columns(self.result)
        count = int((self.result.outcomes.state != sim.State.NEW).sum())
        arrays = [_column(columns.get(each.name), each, count) for each in REQUESTS_SCHEMA]
        return pa.Table.from_arrays(arrays, schema=REQUESTS_SCHEMA)

    def metrics(self) -> pa.Table:
        if isinstance(self.result, TokenResult):
            return to_table(list(sim.token_samples(self.result)), METRICS_SCHEMA)
        return to_table(list(sim.slot_samples(self.result)), METRICS_SCHEMA)

    def schedule(self) -> pa.Table:
        return self.offered.table

    def write(self) -> None:
        """A run directory like that of a live run. Raises RunError."""
        run = RunDir.create(self.path)
        write_table(self.schedule(), run.schedule_path)
        write_table(self.requests(), run.requests_dir / _PART)
        write_table(self.metrics(), run.metrics_dir / _PART)
        self.manifest().write(run.manifest_path)
        run.remove_work_dir()


def _column(told: sim.Column | None, of: pa.Field, rows: int) -> pa.Array:
    """As the schema has it; NaN and None become null."""
    if told is None:
        return pa.nulls(rows, of.type)
    if isinstance(told, str | int):
        return pa.repeat(pa.scalar(told), rows).cast(of.type)
    if isinstance(told, sim.Coded):
        words = pa.array(told.words, pa.string())
        return words.take(pa.array(told.codes)).cast(of.type)
    if pa.types.is_dictionary(of.type):
        return pa.array(told, pa.string()).cast(of.type)
    return pa.array(told, of.type, from_pandas=True)


def _manifest(offered: Offered, result: SlotResult | TokenResult) -> Manifest:
    options, info = offered.options, offered.info
    window = options.transforms.window_s
    return Manifest(
        loadkit_version=__version__,
        command=tuple(options.command),
        created_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
        trace={**asdict(info), "rows": info.rows_read - sum(info.drops.values())},
        transforms={
            **asdict(options.transforms),
            "window_s": None if window == (0.0, float("inf")) else window,
            "batch_service": options.batch_service,
        },
        schedule=offered.described,
        target={
            "url": "sim",
            "engine": "sim",
            "version": __version__,
            "policy": result.policy.name,
            **(_engine(options) if isinstance(result, TokenResult) else _slot_pool(offered)),
        },
        seed=options.transforms.seed,
        workers=0,
        machine=machine(),
        anchor={},
        limits={"horizon_s": options.slots.horizon_s},
        state="finished",
        ended_s=result.end_s,
        ended_why="simulated in virtual time",
    )


def _slot_pool(offered: Offered) -> dict[str, Any]:
    """What a run at slot level depends on, and nothing else."""
    options = offered.options
    speed = {} if offered.timed else {"profile": options.profile, "cost": asdict(options.cost)}
    return {
        "level": "slot",
        "capacity": {"max_num_seqs": options.slots.slots},
        "slots": asdict(options.slots),
        **speed,
    }


def _engine(options: SimOptions) -> dict[str, Any]:
    limits = options.limits
    return {
        "level": "token",
        "capacity": {
            "max_num_seqs": limits.max_num_seqs,
            "max_num_batched_tokens": limits.max_num_batched_tokens,
            "kv_blocks": limits.kv_blocks,
        },
        "profile": options.profile,
        "limits": asdict(limits),
        "cost": asdict(options.cost),
        "horizon_s": options.slots.horizon_s,
    }
