"""`loadkit plan`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadkit import units
from loadkit.cli.output import print_json
from loadkit.errors import InputError

if TYPE_CHECKING:
    from loadkit.analysis.knee.planning import DayNeed, Need


def plan(
    search: Annotated[Path, typer.Argument(help="Folder that `loadkit knee -o` wrote.")],
    *,
    rate: Annotated[str | None, typer.Option(help="Load in all, e.g. 120rps.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="A day of all the load instead, in any known format.")
    ] = None,
    lane: Annotated[
        list[str] | None,
        typer.Option(help="Count only this lane (repeatable).  [default: what was searched]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout.")] = False,
) -> None:
    """Say how many replicas a load needs, from the capacity of one that `loadkit knee` has found.

    \b
    Example:
      loadkit plan runs/knee --rate 120rps
      loadkit plan runs/knee --trace day.parquet
    """
    from loadkit.analysis.knee.planning import day_need, need
    from loadkit.analysis.knee.result import read_result

    if (rate is None) == (trace is None):
        raise InputError("one of --rate and --trace is needed", hint="for example --rate 120rps")
    result = read_result(search)
    if rate is not None:
        one = need(result.findings, units.rate_rps(rate))
        if json:
            print_json(asdict(one))
        else:
            typer.echo(_need_text(one))
        return
    assert trace is not None
    scaled = lane or result.asked["scaled"] or result.asked["lanes"]
    window_s = float(result.asked["search"]["measure_s"])
    day = day_need(result.findings, _arrivals_s(trace, scaled), window_s)
    if json:
        print_json(asdict(day))
    else:
        typer.echo(_day_text(day))


def _arrivals_s(trace: Path, lanes: list[str]) -> list[float]:
    from loadkit.trace import read_table

    table = read_table(trace).table
    rows = zip(table["arrival_s"].to_pylist(), table["lane"].to_pylist(), strict=True)
    return [at_s for at_s, name in rows if not lanes or name in lanes]


def _need_text(one: "Need") -> str:
    use = "" if one.utilisation is None else f", {one.utilisation:.0%} of their saturation in use"
    are = "replica is" if one.safe == 1 else "replicas are"
    return (
        f"{one.rate_rps:.4g} requests/s: {one.safe} {are} safe ({one.likely} likely enough, "
        f"{one.fewest} at the least); with {one.safe}, {one.headroom:.0%} of the capacity is left{use}"
    )


def _day_text(day: "DayNeed") -> str:
    hours = [
        f"  hour {number:2d}  peak {hour.rate_rps:8.4g}/s  {hour.safe:4d} replicas"
        for number, hour in enumerate(day.hours)
    ]
    fixed = day.peak.safe * len(day.hours)
    return "\n".join(
        [
            f"busiest {day.window_s:g} s at {day.peak_at_s / 3600:.2f} h: {_need_text(day.peak)}",
            *hours,
            f"{day.replica_hours} replica hours if scaled by the hour, {fixed} if not",
        ]
    )
