"""The command line: parse, call, print, exit. One file per verb; each imports its rooms when it runs."""

import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from loadkit import __version__
from loadkit.cli import compare, demo, emulate, gate, knee, plan, replay, report, sim, trace
from loadkit.errors import LoadkitError, printable

UsageError: Any = typer.BadParameter.__base__
"""Typer carries its own Click and does not name this class."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(replay.replay)
app.command()(report.report)
app.command()(compare.compare)
app.add_typer(gate.app, name="gate")
app.command()(knee.knee)
app.command()(plan.plan)
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


def _usage(error: Any) -> tuple[str, str]:
    """What was wrong with the command line, and where its help is."""
    words = " ".join(error.format_message().split())
    problem, _, meant = words.partition(" Did you mean ")
    command = error.ctx.command_path if error.ctx else "loadkit"
    also = f"did you mean {meant} " if meant else ""
    return problem, f"{also}see `{command} --help`"


def _fail(message: str, hint: str, code: int) -> NoReturn:
    typer.echo(f"loadkit: {printable(message)}", err=True)
    if hint:
        typer.echo(f"  hint: {printable(hint)}", err=True)
    sys.exit(code)


def _open_standard_streams() -> None:
    """A stream that was closed for us (`2>&-`) becomes /dev/null: no other file may take its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def main() -> None:
    """Run the command line; every error that a user can act on ends in two lines and its exit code."""
    _open_standard_streams()
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except LoadkitError as error:
        _fail(error.message, error.hint, error.exit_code)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            sys.exit(2)
        _fail(*_usage(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("loadkit: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone: nothing to say to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
