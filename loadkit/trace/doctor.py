"""The trace doctor: what a trace is like and what is wrong with it, before anybody replays it.

Rates are rows over span. IoD, the index of dispersion, is variance / mean of the counts in bins of
a width: 1 for a Poisson process, more for bursts. A silence is a gap longer than both 60 s and
50 mean gaps. Rows of one batch job share their instant by design and are no duplicates.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadkit.model import INTERACTIVE
from loadkit.trace import stats
from loadkit.trace.raw import Seconds
from loadkit.trace.stats import Silences
from loadkit.trace.table import TraceTable

DISPERSION_BINS_S = {"1s": 1.0, "10s": 10.0, "60s": 60.0}
ZERO_GAPS_SHARE_MAX = 0.2

_QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
_CURVE_BINS = 60


@dataclass(frozen=True, slots=True)
class Tokens:
    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    p99: float
    mean: float
    total: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Lane:
    rows: int
    rate_rps: float | None
    cv_gaps: float | None
    """Standard deviation of the gaps over their mean; 1 for Poisson."""
    dispersion: Mapping[str, float | None]
    prompt_tokens: Tokens | None
    output_tokens: Tokens | None
    rate_curve_rps: tuple[float, ...]
    """Mean rate in equal parts of the whole trace's span."""


@dataclass(frozen=True, slots=True)
class Sessions:
    sessions: int
    turns_mean: float
    turns_max: int
    multi_turn_share: float


@dataclass(frozen=True, slots=True)
class Description:
    format: str
    rows: int
    span_s: float
    lanes: Mapping[str, Lane]
    dispersion: Mapping[str, float | None]
    cv_gaps: float | None
    duplicate_timestamps: int
    quantum_s: float | None
    """The grid that times sit on, from 1 ms up; None when there is none."""
    time_resolution_s: float | None
    """The last digit that the file writes; None when the format does not fix it."""
    out_of_order_rows: int
    zero_token_rows: int
    segments: int
    silences: Silences
    sessions: Sessions | None
    batch_jobs: int
    prefix_hit_share: float | None
    """Share of prefix blocks seen before in the file: the hit rate of an endless cache."""
    t0_utc: str | None
    sha256: str
    known: bool | None
    """Does a published sha256 vouch for these bytes? False: famous name, other bytes."""
    drops: Mapping[str, int]
    repairs: Mapping[str, int]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values, nested as here."""
        return asdict(self)


def describe(trace: TraceTable) -> Description:
    """Everything `trace show` tells. Pure: the same table gives the same description."""
    table = trace.table
    arrival_s = table["arrival_s"].to_numpy()
    own_s = arrival_s[table["batch_id"].is_null().to_numpy()]
    repeats = int((np.diff(own_s) == 0).sum())
    quantum_s = stats.grid_s(own_s)
    info = trace.info
    return Description(
        format=info.format,
        rows=trace.rows,
        span_s=trace.span_s,
        lanes=_lanes(table, arrival_s),
        dispersion=_dispersions(arrival_s),
        cv_gaps=stats.cv_of_gaps(arrival_s),
        duplicate_timestamps=repeats,
        quantum_s=quantum_s,
        time_resolution_s=trace.meta.get("time_resolution_s"),
        out_of_order_rows=info.repairs.get("sorted", 0),
        zero_token_rows=_zero_token_rows(table),
        segments=trace.meta["segments"],
        silences=stats.silences(arrival_s),
        sessions=_sessions(table),
        batch_jobs=pc.count_distinct(table["batch_id"], mode="only_valid").as_py(),
        prefix_hit_share=_prefix_hit_share(table),
        t0_utc=info.t0_utc,
        sha256=info.sha256,
        known=trace.meta["sources"][0]["known"],
        drops=info.drops,
        repairs=info.repairs,
        warnings=info.warnings + _advice(repeats, own_s.size, quantum_s),
    )


def _lanes(table: pa.Table, arrival_s: Seconds) -> dict[str, Lane]:
    names = sorted(pc.unique(table["lane"].cast(pa.string())).to_pylist(), key=_lane_order)
    return {name: _lane(table.filter(pc.equal(table["lane"], name)), arrival_s) for name in names}


def _lane_order(name: str) -> tuple[bool, str]:
    return name != INTERACTIVE, name


def _lane(table: pa.Table, all_s: Seconds) -> Lane:
    arrival_s = table["arrival_s"].to_numpy()
    start_s, span_s = float(all_s[0]), float(all_s[-1] - all_s[0])
    return Lane(
        rows=table.num_rows,
        rate_rps=table.num_rows / span_s if span_s else None,
        cv_gaps=stats.cv_of_gaps(arrival_s),
        dispersion=_dispersions(arrival_s),
        prompt_tokens=_tokens(table["prompt_tokens"]),
        output_tokens=_tokens(table["output_tokens"]),
        rate_curve_rps=tuple(stats.rate_curve_rps(arrival_s, start_s, span_s, _CURVE_BINS)),
    )


def _dispersions(arrival_s: Seconds) -> dict[str, float | None]:
    return {name: stats.dispersion(arrival_s, width) for name, width in DISPERSION_BINS_S.items()}


def _tokens(column: Any) -> Tokens | None:
    known = column.drop_null().to_numpy()
    if not known.size:
        return None
    # A quantile of token counts is a count that occurred, not a number between two.
    quantiles = np.quantile(known, list(_QUANTILES.values()), method="inverted_cdf")
    return Tokens(
        **dict(zip(_QUANTILES, quantiles.tolist(), strict=True)),
        mean=float(known.mean()),
        total=int(known.sum()),
        unknown=column.null_count,
    )


def _zero_token_rows(table: pa.Table) -> int:
    zero = pc.or_kleene(pc.equal(table["prompt_tokens"], 0), pc.equal(table["output_tokens"], 0))
    return int(pc.sum(pc.fill_null(zero, False)).as_py())


def _sessions(table: pa.Table) -> Sessions | None:
    told = pc.value_counts(table["session"].drop_null())
    if not len(told):
        return None
    turns = told.field("counts").to_numpy()
    return Sessions(
        sessions=len(turns),
        turns_mean=float(turns.mean()),
        turns_max=int(turns.max()),
        multi_turn_share=float((turns > 1).mean()),
    )


def _prefix_hit_share(table: pa.Table) -> float | None:
    """Ids are chained, so an id seen before means that all before it were: repeats / all."""
    ids = table["prefix_ids"]
    blocks = pc.sum(pc.list_value_length(ids)).as_py()
    if not blocks:
        return None
    spaces = table["prefix_ns"].cast(pa.string()).fill_null("")
    flat = pa.table(
        {"id": pc.list_flatten(ids), "ns": spaces.take(pc.list_parent_indices(ids))}
    ).group_by(["ns", "id"])
    return 1.0 - int(flat.aggregate([]).num_rows) / int(blocks)


def _advice(repeats: int, rows: int, quantum_s: float | None) -> tuple[str, ...]:
    """Replayed as it stands, a quantised trace fires whole grid cells at once."""
    if repeats <= ZERO_GAPS_SHARE_MAX * max(1, rows - 1):
        return ()
    found = f"{repeats} of {rows} rows repeat the instant before"
    if quantum_s is None:
        return (found,)
    told = f"{found}: times sit on a {quantum_s:g} s grid, so a replay would send square waves; "
    return (
        told + f"`trace convert --dejitter uniform:{quantum_s:g}s` spreads them inside the grid",
    )
