"""The requests that a search may draw from: of the lanes it sends, and none that the server refuses."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from loadkit.errors import InputError
from loadkit.knee.options import KneeOptions
from loadkit.knee.search import SAMPLE_WARMS
from loadkit.knee.segments import require_length
from loadkit.trace import TraceTable, read_table

Say = Callable[[str], None]


def sendable(options: KneeOptions, say: Say) -> TraceTable:
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
