"""The command line: parse, call, print, exit. One file per verb; each imports its rooms when it runs."""

import os
import sys
from typing import Annotated

import typer

from loadkit import __version__
from loadkit.cli import demo, emulate, replay, report, sim, trace
from loadkit.errors import LoadkitError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(replay.replay)
app.command()(report.report)
app.add_typer(trace.app, name="trace")
app.command()(emulate.emulate)
app.command()(sim.sim)
app.command()(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"loadkit {__version__}")
        raise typer.Exit


@app.callback()
def _loadkit(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Replay a trace of LLM requests against a live inference server and say what happened.

    Exit codes: 0 done, 1 an SLO failed, 2 bad usage or input, 3 run invalid (the generator, not the
    server, was the limit), 4 target unreachable.
    """


def main() -> None:
    """Run the command line; a LoadkitError ends in two lines and its exit code."""
    try:
        app()
    except LoadkitError as error:
        typer.echo(f"loadkit: {error.message}", err=True)
        if error.hint:
            typer.echo(f"  hint: {error.hint}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("loadkit: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone: nothing to say to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
