"""A trace by columns → the jobs of a slot pool, with window, lanes and speed applied."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from loadkit.core.orders import is_deferrable
from loadkit.errors import InputError
from loadkit.model import Send
from loadkit.schedule import Transforms
from loadkit.sim import Workload
from loadkit.simulate.options import SimOptions
from loadkit.trace import TraceTable

Say = Callable[[str], None]


def workload(options: SimOptions, trace: TraceTable, say: Say) -> Workload:
    """Service times of batch lanes are scaled as asked. Raises InputError."""
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


def service_factors(work: Workload, batch_service: float) -> dict[str, float]:
    """Lane → factor on the trace's service times, where it is not 1."""
    if batch_service == 1.0:
        return {}
    return {lane: batch_service for lane in work.lane_names if is_deferrable(lane)}


def work_sha256(trace: TraceTable) -> str:
    """Of what all jobs of the trace ask for: equal instants alone do not make equal work."""
    table = trace.table
    timed = not table["service_s"].null_count
    digest = hashlib.sha256()
    for name in ("service_s",) if timed else ("prompt_tokens", "output_tokens"):
        digest.update(name.encode())
        digest.update(table[name].to_numpy().tobytes())
    return digest.hexdigest()


def sends_of(work: Workload) -> list[Send]:
    """The schedule of a slot-level run; token counts are 0 where the trace has none."""
    count = len(work)
    none: list[None] = [None] * count
    rows = zip(
        work.request_id,
        work.arrival_s.tolist(),
        work.lanes(),
        work.tokens or [0] * count,
        work.tenant or none,
        work.deadlines() or none,
        work.priority or none,
        strict=True,
    )
    return [
        Send(name, at_s, lane, tokens, 0, tenant=who, deadline_s=due_s, priority=priority)
        for name, at_s, lane, tokens, who, due_s, priority in rows
    ]
