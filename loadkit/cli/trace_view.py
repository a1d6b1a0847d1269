"""`trace show` for people: tables and a rate curve in the terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadkit.trace.doctor import Description, Lane, Tokens

_BARS = " ▁▂▃▄▅▆▇█"


def print_description(file: Path, told: Description) -> None:
    console = Console(highlight=False, width=None if Console().is_terminal else 110)
    console.print(_headline(file, told), soft_wrap=True)
    console.print(_lane_table(told))
    console.print(_token_table(told))
    for name, lane in told.lanes.items():
        _print_curve(console, name, lane, told.span_s)
    console.print()
    for line in _findings(told):
        console.print(line, soft_wrap=True)
    for warning in told.warnings:
        console.print(f"[yellow]warning[/] {escape(warning)}", soft_wrap=True)


def _headline(file: Path, told: Description) -> str:
    start = f", from {told.t0_utc}" if told.t0_utc else ""
    known = {True: ", published bytes", False: ", NOT the published bytes", None: ""}[told.known]
    name = escape(str(file))
    return f"[bold]{name}[/]: {told.format}{known}, {told.rows:,} rows over {_time(told.span_s)}{start}"


def _lane_table(told: Description) -> Table:
    table = Table(box=None, pad_edge=False, title_justify="left")
    for column in ("lane", "rows", "rate", "CV of gaps", *(f"IoD {w}" for w in told.dispersion)):
        table.add_column(column, justify="left" if column == "lane" else "right")
    for name, lane in told.lanes.items():
        rate = f"{lane.rate_rps:.4g} rps" if lane.rate_rps else "-"
        spread = [_number(lane.cv_gaps), *map(_number, lane.dispersion.values())]
        table.add_row(escape(name), f"{lane.rows:,}", rate, *spread)
    return table


def _token_table(told: Description) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("tokens", "p5", "p25", "p50", "p75", "p95", "p99", "mean", "total", "unknown"):
        table.add_column(column, justify="left" if column == "tokens" else "right")
    for name, lane in told.lanes.items():
        for side, tokens in (("prompt", lane.prompt_tokens), ("output", lane.output_tokens)):
            table.add_row(f"{escape(name)} {side}", *_token_cells(tokens))
    return table


def _token_cells(tokens: Tokens | None) -> list[str]:
    if tokens is None:
        return ["-"] * 9
    quantiles = (tokens.p5, tokens.p25, tokens.p50, tokens.p75, tokens.p95, tokens.p99)
    rest = (tokens.mean, tokens.total, tokens.unknown)
    return [f"{value:,.0f}" for value in (*quantiles, *rest)]


def _print_curve(console: Console, name: str, lane: Lane, span_s: float) -> None:
    curve = lane.rate_curve_rps
    console.print(f"\n{escape(name)} rate, 0 to {max(curve):.3g} rps", soft_wrap=True)
    console.print(f"│{bars(curve)}│ {_time(span_s)}", soft_wrap=True)


def bars(curve: Sequence[float]) -> str:
    """One character per value, as high as its share of the greatest; anything above 0 is seen."""
    top = max(curve) or 1.0
    steps = len(_BARS) - 1
    return "".join(_BARS[max(value > 0, round(value / top * steps))] for value in curve)


def _findings(told: Description) -> list[str]:
    silence = told.silences
    lengths = f" of {silence.shortest_s:.1f} to {silence.longest_s:.1f} s" if silence.count else ""
    lines = {
        "duplicate timestamps": f"{told.duplicate_timestamps:,}",
        "time grid": f"{told.quantum_s:g} s" if told.quantum_s else "none from 1 ms up",
        "last digit of times": _digit(told.time_resolution_s),
        "out of order": f"{told.out_of_order_rows:,} rows",
        "zero tokens": f"{told.zero_token_rows:,} rows",
        "segments": f"{told.segments}",
        "silences": f"{silence.count}{lengths} (gaps > {silence.longer_than_s:.0f} s: "
        "the larger of 60 s and 50 mean gaps)",
    }
    if told.sessions:
        lines["sessions"] = (
            f"{told.sessions.sessions:,}, turns mean {told.sessions.turns_mean:.2f} "
            f"max {told.sessions.turns_max}, {told.sessions.multi_turn_share:.0%} with several"
        )
    if told.batch_jobs:
        lines["batch jobs"] = f"{told.batch_jobs:,}"
    if told.prefix_hit_share is not None:
        lines["prefix blocks"] = f"{told.prefix_hit_share:.1%} seen before in the file"
    lines["dropped"] = _counts(told.drops)
    lines["repaired on reading"] = _counts(told.repairs)
    return [f"{name:<21}{text}" for name, text in lines.items()]


def _digit(resolution_s: float | None) -> str:
    return "unknown" if resolution_s is None else f"{resolution_s:g} s"


def _counts(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in counts.items()) or "none"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _time(span_s: float) -> str:
    if span_s < 120:
        return f"{span_s:.4g} s"
    return f"{span_s / 60:.1f} min" if span_s < 7200 else f"{span_s / 3600:.2f} h"
