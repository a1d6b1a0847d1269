"""The tables of a run → frames that every analysis reads. Adds no opinion; works on half a run.

A request that was due before the end but has no row (a crash took it) becomes a `dropped` row, so
the denominator of every share stays what was offered.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadkit.records import REQUESTS_SCHEMA, Manifest

NO_ROW = "no row"
"""How the `error` of a request begins whose row was lost: by us here, or by the replay at its end."""
_CHUNKS = "chunk_offsets_s"


class RunTables(Protocol):
    """What a run directory holds, in the schemas of `records`; it need not be on disk."""

    @property
    def path(self) -> Path: ...

    def manifest(self) -> Manifest: ...

    def requests(self) -> pa.Table: ...

    def metrics(self) -> pa.Table: ...

    def schedule(self) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class Gaps:
    """Seconds between consecutive content chunks, with the row of `Facts.offered` each belongs to."""

    seconds: NDArray[np.float32]
    row: NDArray[np.int32]
    offset_s: NDArray[np.float32]
    """When the gap ended, counted from `sent_s` of its row."""

    def where(self, rows: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The gaps of the chosen rows, a mask over `Facts.offered`."""
        return self.seconds if rows.all() else self.seconds[rows[self.row]]


@dataclass(frozen=True, slots=True)
class Facts:
    manifest: Manifest
    attempts: pd.DataFrame
    """One row per attempt, as written, without chunk lists."""
    offered: pd.DataFrame
    """One row per offered request: its last attempt, `scheduled_s` of its first, plus the columns
    `chunks`, `chunks_span_s`, `longest_gap_s`, `missing`."""
    gaps: Gaps
    server: pd.DataFrame
    """Metric samples of targets."""
    workers: pd.DataFrame
    """Metric samples of our own workers."""
    duplicate_rows: int
    end_s: float
    """When the run ended or, where nobody could write that, the last instant in any row."""

    @property
    def due_span_s(self) -> float:
        """How long requests were due: the planned duration, or up to the last due instant."""
        last_s = float(self.offered["scheduled_s"].max()) if len(self.offered) else 0.0
        if self.manifest.state != "finished":
            return last_s
        return max(last_s, float(self.manifest.schedule.get("duration_s") or 0.0))

    @property
    def missing(self) -> pd.DataFrame:
        return self.offered[self.offered["missing"]]


def load(run: RunTables) -> Facts:
    """Read a run. Raises RunError when it is none."""
    manifest, rows, samples = run.manifest(), _plain(run.requests()), _plain(run.metrics())
    end_s = _end_s(manifest, rows, samples)
    table, duplicate_rows = _last_attempts(rows)
    table = pa.concat_tables([table, _missing_rows(run.schedule(), table, manifest, end_s)])
    if manifest.state == "stopped":
        table = _without_never_due(table, end_s)
    offered, gaps = _with_chunks(table)
    frame = samples.to_pandas()
    ours = frame["engine"] == "loadkit"
    return Facts(
        manifest=manifest,
        attempts=rows.drop_columns([_CHUNKS]).to_pandas(),
        offered=offered,
        gaps=gaps,
        server=frame[~ours].reset_index(drop=True),
        workers=frame[ours].reset_index(drop=True),
        duplicate_rows=duplicate_rows,
        end_s=end_s,
    )


def _plain(table: pa.Table) -> pa.Table:
    """Dictionary columns as plain text: they compare and concatenate without surprises."""
    fields = [
        pa.field(f.name, pa.string()) if pa.types.is_dictionary(f.type) else f for f in table.schema
    ]
    return table.cast(pa.schema([f.with_nullable(True) for f in fields]))


def _end_s(manifest: Manifest, rows: pa.Table, samples: pa.Table) -> float:
    if manifest.ended_s is not None:
        return float(manifest.ended_s)
    columns = (rows["finished_s"], rows["sent_s"], samples["t_s"])
    return max((pc.max(column).as_py() or 0.0 for column in columns), default=0.0)


def _last_attempts(rows: pa.Table) -> tuple[pa.Table, int]:
    """One row per request, scheduled when its first attempt was; and how many rows were doubled."""
    keys = rows.select(["request_id", "attempt", "scheduled_s"]).to_pandas()
    if not keys["request_id"].duplicated().any():
        return rows, 0
    doubled = int(keys.duplicated(["request_id", "attempt"]).sum())
    keys = keys.sort_values("attempt", kind="stable")
    first_due_s = keys.groupby("request_id")["scheduled_s"].min()
    last = keys.drop_duplicates("request_id", keep="last").sort_index()
    due_s = pa.array(first_due_s.loc[last["request_id"]].to_numpy())
    table = rows.take(pa.array(last.index.to_numpy()))
    return table.set_column(
        table.schema.get_field_index("scheduled_s"), "scheduled_s", due_s
    ), doubled


def _missing_rows(schedule: pa.Table, seen: pa.Table, manifest: Manifest, end_s: float) -> pa.Table:
    """Requests of the schedule that were due and have no row, as `dropped` rows."""
    plan = _plain(schedule)
    plan = plan.filter(pc.invert(pc.is_in(plan["request_id"], value_set=seen["request_id"])))
    if manifest.state != "finished":
        plan = plan.filter(pa.array(_was_due(plan, seen, end_s)))
    known = {
        **{name: plan[name] for name in plan.schema.names if name in REQUESTS_SCHEMA.names},
        "planned_s": plan["scheduled_s"],
        "prompt_tokens_planned": plan["prompt_tokens"],
        "output_tokens_planned": plan["output_tokens"],
        "prompt_tokens": None,
        "output_tokens": None,
        "status": pa.array(["dropped"] * len(plan), pa.string()),
        "error": pa.array([f"{NO_ROW} was written"] * len(plan), pa.string()),
        "attempt": pa.array([0] * len(plan), pa.int32()),
    }
    columns = [
        pa.nulls(len(plan), f.type) if known.get(f.name) is None else known[f.name].cast(f.type)
        for f in seen.schema
    ]
    return pa.Table.from_arrays(columns, schema=seen.schema)


def _was_due(plan: pa.Table, seen: pa.Table, end_s: float) -> NDArray[np.bool_]:
    """A follow-up turn is due when its parent has ended, so not at all while that is unknown."""
    wanted = plan.select(["scheduled_s", "parent_id", "think_s"]).to_pandas()
    parents = wanted["parent_id"].dropna().unique()
    ended = seen.select(["request_id", "finished_s"])
    ended = ended.filter(pc.is_in(ended["request_id"], value_set=pa.array(parents, pa.string())))
    ended_s = ended.to_pandas().set_index("request_id")["finished_s"]
    after_parent_s = wanted["parent_id"].map(ended_s).astype(float) + wanted["think_s"].fillna(0.0)
    due_s = wanted["scheduled_s"].where(
        wanted["parent_id"].isna(), np.maximum(after_parent_s, wanted["scheduled_s"])
    )
    due: NDArray[np.bool_] = (due_s <= end_s).to_numpy(bool)
    return due


def _without_never_due(table: pa.Table, end_s: float) -> pa.Table:
    """A run that was stopped by hand did not offer what was due later."""
    never = pc.and_(pc.equal(table["status"], "dropped"), pc.greater(table["scheduled_s"], end_s))
    return table.filter(pc.invert(pc.fill_null(never, False)))


def _with_chunks(table: pa.Table) -> tuple[pd.DataFrame, Gaps]:
    lists = table[_CHUNKS].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets_s = lists.flatten().to_numpy(zero_copy_only=False)
    frame = table.drop_columns([_CHUNKS]).to_pandas()
    ends = np.cumsum(lengths)
    has = lengths > 0
    span_s = np.full(len(frame), np.nan)
    span_s[has] = offsets_s[ends[has] - 1] - offsets_s[(ends - lengths)[has]]
    frame["chunks"] = lengths
    frame["chunks_span_s"] = span_s
    gaps = _gaps(offsets_s, lengths, ends)
    frame["longest_gap_s"] = _longest_s(gaps, len(frame))
    frame["missing"] = (frame["status"] == "dropped") & frame["error"].str.startswith(
        NO_ROW, na=False
    )
    return frame, gaps


def _longest_s(gaps: Gaps, rows: int) -> NDArray[np.float64]:
    """Of each row; NaN for one without a gap."""
    longest_s = np.full(rows, np.nan)
    firsts = np.flatnonzero(np.diff(gaps.row, prepend=-1))
    if len(firsts):
        longest_s[gaps.row[firsts]] = np.maximum.reduceat(gaps.seconds, firsts)
    return longest_s


def _gaps(
    offsets_s: NDArray[np.float32], lengths: NDArray[np.int32], ends: NDArray[np.int64]
) -> Gaps:
    """Differences inside each list; the step from one list to the next is no gap."""
    if len(offsets_s) < 2:
        return Gaps(np.empty(0, np.float32), np.empty(0, np.int32), np.empty(0, np.float32))
    inside = np.ones(len(offsets_s), bool)
    inside[(ends - lengths)[lengths > 0]] = False
    row = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return Gaps(np.diff(offsets_s)[inside[1:]], row[inside], offsets_s[inside])
