"""`loadkit trace show | convert | synth`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadkit import units
from loadkit.errors import InputError

if TYPE_CHECKING:
    from loadkit.trace import ReadOptions, TraceTable

app = typer.Typer(no_args_is_help=True, help="Look at, convert or make traces.")

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A trace in any known format.")]
_Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="azure, burstgpt, mooncake, parquet, jsonl or csv, instead of looking at the content.",
    ),
]
_TimeUnit = Annotated[
    str | None,
    typer.Option(metavar="s|ms", help="Unit of a column that is only called `timestamp`."),
]
_Segment = Annotated[
    int | None,
    typer.Option(metavar="N", help="Take part N (from 1) of a file whose clock starts again."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
_Seed = Annotated[int, typer.Option(metavar="N", help="Seed of everything random.")]


@app.command()
def show(
    file: _File,
    *,
    fmt: _Format = None,
    time_unit: _TimeUnit = None,
    segment: _Segment = None,
    as_json: _Json = False,
) -> None:
    """Say what a trace is like and what is wrong with it. Sends nothing.

    Example: loadkit trace show AzureLLMInferenceTrace_conv.csv
    """
    from loadkit.trace import read_table
    from loadkit.trace.doctor import describe

    options = _options(time_unit=time_unit, segment=segment)
    description = describe(read_table(file, fmt, options, refuse_segments=False))
    if as_json:
        typer.echo(json.dumps(description.as_json()))
        return
    from loadkit.cli.trace_view import print_description

    print_description(file, description)


@app.command()
def convert(  # noqa: PLR0913 - one parameter per flag
    src: Annotated[Path, typer.Argument(metavar="SRC", help="A trace in any known format.")],
    dst: Annotated[Path, typer.Argument(metavar="DST", help="*.parquet, *.jsonl or *.csv.")],
    *,
    fmt: _Format = None,
    lane: Annotated[
        str | None, typer.Option(metavar="NAME", help="Put every row into this lane.")
    ] = None,
    api_lane: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="BurstGPT: the lane of `API log` rows."),
    ] = None,
    time_unit: _TimeUnit = None,
    segment: _Segment = None,
    dejitter: Annotated[
        str | None,
        typer.Option(
            metavar="uniform:3s", help="Spread times that sit on a grid evenly over its width."
        ),
    ] = None,
    seed: _Seed = 0,
    force: _Force = False,
    as_json: _Json = False,
) -> None:
    """Convert any known format to loadkit's own, counting everything dropped or repaired.

    Example: loadkit trace convert conversation_trace.jsonl day.parquet --dejitter uniform:3s
    """
    from loadkit.trace import read_table, write
    from loadkit.trace.dejitter import dejitter as spread
    from loadkit.trace.files import writer_for

    width_s = None if dejitter is None else _uniform_s(dejitter)
    writer_for(dst, force=force)
    options = _options(time_unit=time_unit, segment=segment, lane=lane, api_lane=api_lane)
    trace = read_table(src, fmt, options)
    if width_s is not None:
        trace = spread(trace, width_s, seed)
    write(trace, dst, force=force)
    _print_written(dst, trace, as_json=as_json)


@app.command()
def synth(  # noqa: PLR0913 - one parameter per flag
    *,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="*.parquet, *.jsonl or *.csv.")
    ],
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="diurnal: one time zone's chat, evening batch jobs.")
    ] = "diurnal",
    duration: Annotated[str, typer.Option(metavar="TIME", help="Length of the trace.")] = "24h",
    rate: Annotated[
        str, typer.Option(metavar="RATE", help="Mean rate of the interactive lane.")
    ] = "2rps",
    seed: _Seed = 1,
    day: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Let a whole day of the rate curve pass in this time. Batch deadlines and the "
            "gaps between turns (median 2s or more) shrink with it; token counts do not.",
        ),
    ] = "24h",
    start_hour: Annotated[
        float | None, typer.Option(metavar="H", help="Hour of the day at t = 0; else noon.")
    ] = None,
    batch_share: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Batch rows / all rows; else 0.3.")
    ] = None,
    tenants: Annotated[
        int | None, typer.Option(metavar="N", help="Interactive tenants; else 50.")
    ] = None,
    force: _Force = False,
    as_json: _Json = False,
) -> None:
    """Make a synthetic day with an interactive and a batch lane.

    Sessions have turns and shared system prompts; every row of a batch job arrives at its submit
    time and is due a day later (or a duration later, if that is shorter). The same seed makes the
    same file.

    Example: loadkit trace synth --duration 60s --day 60s --rate 3rps --seed 1 -o day.parquet
    """
    from loadkit.trace import write
    from loadkit.trace.files import writer_for
    from loadkit.trace.synth import Spec, synthesize

    writer_for(out, force=force)
    trace = synthesize(
        Spec(
            preset=preset,
            duration_s=units.duration_s(duration),
            rate_rps=units.rate_rps(rate),
            seed=seed,
            day_s=units.duration_s(day),
            batch_share=batch_share,
            tenants=tenants,
            start_hour=start_hour,
        )
    )
    write(trace, out, force=force)
    _print_written(out, trace, as_json=as_json)


def _options(**asked: Any) -> "ReadOptions":
    """Raises InputError on a value that no file could make sense of."""
    from loadkit.trace import ReadOptions
    from loadkit.trace.cells import is_word
    from loadkit.trace.raw import TIME_UNITS_S

    options = ReadOptions(**asked)
    if options.time_unit is not None and options.time_unit not in TIME_UNITS_S:
        raise InputError(f"{options.time_unit!r} is not a unit of time", hint="--time-unit s or ms")
    for lane in (options.lane, options.api_lane):
        if lane is not None and not is_word(lane):
            raise InputError(f"{lane!r} is not a lane name", hint="for example interactive, batch")
    return options


def _uniform_s(text: str) -> float:
    law, colon, width = text.partition(":")
    if law != "uniform" or not colon or units.duration_s(width) <= 0:
        raise InputError(f"{text!r} is not a way to dejitter", hint="write uniform:3s")
    return units.duration_s(width)


def _print_written(path: Path, trace: "TraceTable", *, as_json: bool) -> None:
    info = trace.info
    if as_json:
        typer.echo(json.dumps({"path": str(path), **trace.meta}))
        return
    span_s = trace.span_s
    typer.echo(f"{path}: {trace.rows:,} rows over {span_s:,.1f} s, from {info.format}")
    typer.echo(f"  read {info.rows_read:,} rows, dropped {sum(info.drops.values()):,}")
    for what, counts in (("dropped", info.drops), ("repaired", info.repairs)):
        for reason, count in counts.items():
            typer.echo(f"  {what} {count:,}: {reason.replace('_', ' ')}")
    for warning in info.warnings:
        typer.echo(f"  warning: {warning}")
