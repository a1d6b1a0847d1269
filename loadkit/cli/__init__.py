"""The command line: parse, call, print, exit. One file per verb; each imports its rooms when it runs."""

import sys

import typer

from loadkit.cli import emulate, trace
from loadkit.errors import LoadkitError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Replay a trace of LLM requests against a live inference server and say what happened.",
)
app.add_typer(trace.app, name="trace")
app.command()(emulate.emulate)


def main() -> None:
    """Run the command line; a LoadkitError ends in two lines and its exit code."""
    try:
        app()
    except LoadkitError as error:
        print(f"loadkit: {error.message}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
