"""`loadkit replay`: the main job."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from loadkit import units
from loadkit.cli.arguments import base_url, headers, one_of, positive_s, recorded_command, say
from loadkit.cli.output import print_json
from loadkit.errors import LoadkitError, RunError, printable
from loadkit.model import Slo, Target


def replay(  # noqa: PLR0913, PLR0917  (one parameter per flag)
    trace: Annotated[
        Path, typer.Argument(help="Trace in any known format (`loadkit trace show`).")
    ],
    target: Annotated[
        str, typer.Option(help="Base URL of the server, e.g. http://127.0.0.1:8000")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New run directory.  [default: runs/TRACE-TIME]"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to ask for.  [default: the one that is served]")
    ] = None,
    api: Annotated[str, typer.Option(help="completions (exact lengths) or chat.")] = "completions",
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Ask for a token stream.")
    ] = True,
    speedup: Annotated[
        str, typer.Option(help="2x = arrivals, think times and deadlines twice as fast.")
    ] = "1x",
    scale: Annotated[
        str, typer.Option(help="0.5x = half of the sessions; 2x = superpose a shifted copy.")
    ] = "1x",
    window: Annotated[
        str, typer.Option(help="Part of the recording to replay, e.g. 0s:10m.")
    ] = "0s:",
    lane: Annotated[
        list[str] | None, typer.Option(help="Replay only this lane (repeatable).")
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            help="LANE:METRIC:pNN:DURATION, e.g. interactive:ttft:p99:500ms (repeatable)."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Locust worker processes.")] = 1,
    timeout: Annotated[str, typer.Option(help="Per request, from its due instant.")] = "10m",
    max_in_flight: Annotated[
        int | None,
        typer.Option(min=1, help="Drop requests beyond so many in flight.  [default: no cap]"),
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, help="Further attempts after a refusal; Retry-After is honoured.")
    ] = 0,
    max_send_lag: Annotated[
        str, typer.Option(help="p99 of send lag above which the run is INVALID.")
    ] = "50ms",
    api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable with the API key (never the key itself)."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            help="Extra request header, 'Name: value'; $VAR comes from the environment, {lane} {tenant} "
            "{priority} {deadline_s} from the request (repeatable)."
        ),
    ] = None,
    lane_headers: Annotated[
        bool,
        typer.Option(
            "--lane-headers/--no-lane-headers",
            help="Send lane, tenant, priority and deadline as X-Loadkit-* headers.",
        ),
    ] = True,
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates to trust, for a server with its own CA.")
    ] = None,
    insecure: Annotated[bool, typer.Option(help="Accept any certificate.")] = False,
    engine: Annotated[
        str | None, typer.Option(help="vllm, sglang, llamacpp, …  [default: detected]")
    ] = None,
    metrics_url: Annotated[
        list[str] | None,
        typer.Option(help="Where to scrape metrics (repeatable).  [default: TARGET/metrics]"),
    ] = None,
    scrape: Annotated[
        bool, typer.Option("--scrape/--no-scrape", help="Read the server's own metrics.")
    ] = True,
    trace_format: Annotated[
        str | None, typer.Option("--format", help="Format of the trace.  [default: detected]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every random choice in the schedule.")] = 1,
    web: Annotated[
        int,
        typer.Option(
            "--web",
            min=0,
            max=65535,
            metavar="PORT",
            help="Show Locust's own web interface on this loopback port while it runs.",
        ),
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option(help="Print what would be sent, and send nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout.")] = False,
    attached: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Replay a trace against a live server and write down what happened.

    Open loop: every request goes out at its instant, however slow the server is, and latency counts
    from that instant. Interactive and batch lanes run together.

    \b
    Example:
      loadkit replay traces/diurnal-demo.parquet --target http://127.0.0.1:8000 \\
        --speedup 10x --slo interactive:ttft:p99:500ms -o runs/first

    Exit codes: 0 done, 1 an SLO failed, 2 bad usage or input, 3 run invalid, 4 target unreachable.
    """
    from loadkit.replay import ReplayOptions
    from loadkit.replay import replay as run_replay
    from loadkit.schedule import Transforms

    transforms = Transforms(
        speedup=units.factor(speedup),
        scale=units.factor(scale),
        window_s=units.window_s(window),
        lanes=tuple(lane or ()),
        seed=seed,
    )
    slos = tuple(units.slo(text) for text in slo or ())
    if dry_run:
        _dry_run(trace, trace_format, transforms, slos, json)
        return
    options = ReplayOptions(
        trace=trace,
        trace_format=trace_format,
        target=Target(
            url=base_url(target),
            api=one_of("--api", api, ("completions", "chat")),
            model=model,
            stream=stream,
            engine=engine,
            api_key_env=api_key_env,
            headers=headers(header or ()),
            lane_headers=lane_headers,
            ca_file=None if ca_file is None else str(ca_file),
            insecure=insecure,
        ),
        output=output or default_output(trace.name.partition(".")[0]),
        transforms=transforms,
        slos=slos,
        workers=workers,
        timeout_s=positive_s("--timeout", timeout),
        max_in_flight=max_in_flight,
        retries=retries,
        max_send_lag_s=positive_s("--max-send-lag", max_send_lag),
        metrics_urls=tuple(metrics_url or ()),
        scrape=scrape,
        web_port=web,
        attached=attached,
        command=recorded_command(sys.argv[1:]),
    )
    summary, error = run_replay(options, say=say)
    finish(summary, error, json=json, attached=attached)


def finish(summary: Any, error: LoadkitError | None, *, json: bool, attached: bool) -> NoReturn:
    """Show a finished run and leave with its exit code, or with that of the error which ended it."""
    from loadkit.analysis import exit_code, to_json
    from loadkit.report import terminal_summary

    if isinstance(error, RunError):  # a full disk: the report may not be there
        raise error
    if json:
        print_json(to_json(summary))
    else:
        typer.echo(printable(str(terminal_summary(summary))), err=attached)
    if error is not None:
        raise error
    raise typer.Exit(exit_code(summary))


def _dry_run(
    trace: Path, trace_format: str | None, transforms: Any, slos: tuple[Slo, ...], json: bool
) -> None:
    from loadkit import schedule
    from loadkit.cli.dry_run import describe_plan
    from loadkit.replay.prepare import load_planned

    planned = load_planned(trace, trace_format, transforms, slos)[1]
    if json:
        print_json(schedule.describe(planned))
    else:
        typer.echo(describe_plan(planned))


def default_output(stem: str) -> Path:
    """A new folder name under `runs/`."""
    return Path("runs") / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"  # noqa: DTZ005  (local, for people)
