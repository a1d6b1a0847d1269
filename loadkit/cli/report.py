"""`loadkit report`."""

from pathlib import Path
from typing import Annotated

import typer

from loadkit.cli.output import print_json


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A folder that `loadkit replay -o` wrote.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary for machines.")
    ] = False,
) -> None:
    """Make the report of a run again, from its rows alone.

    Works on whatever a killed run left behind. Exit code 3 = the run is invalid, 1 = an SLO was not met.

    Example: loadkit report runs/a
    """
    from rich.console import Console

    from loadkit import analysis
    from loadkit.records import RunDir
    from loadkit.report import terminal_summary, write_report

    opened = RunDir.open(run)
    summary = analysis.summarize(opened)
    write_report(opened, summary)
    if as_json:
        print_json(analysis.to_json(summary))
    else:
        Console(soft_wrap=True, highlight=False).print(terminal_summary(summary))
    raise typer.Exit(analysis.exit_code(summary))
