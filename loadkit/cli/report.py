"""`loadkit report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadkit.cli.output import print_json

if TYPE_CHECKING:
    from loadkit.analysis.knee.result import KneeResult


def report(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A folder that `loadkit replay -o` or `loadkit knee -o` wrote."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary for machines.")
    ] = False,
) -> None:
    """Make the report of a run, or of a search, again, from its rows alone.

    Works on whatever a killed run left behind. Exit code 3 = the run is invalid, 1 = an SLO was not met;
    of a search the same as `loadkit knee`.

    Example: loadkit report runs/a
    """
    from loadkit.analysis.knee.result import KNEE_FILE, read_result

    if (run / KNEE_FILE).is_file():
        raise typer.Exit(show_search(read_result(run), as_json=as_json))
    raise typer.Exit(_show_run(run, as_json=as_json))


def _show_run(folder: Path, *, as_json: bool) -> int:
    from loadkit import analysis
    from loadkit.records import RunDir
    from loadkit.report import terminal_summary, write_report

    opened = RunDir.open(folder)
    summary = analysis.summarize(opened)
    write_report(opened, summary)
    if as_json:
        print_json(analysis.to_json(summary))
    else:
        _print(terminal_summary(summary))
    return analysis.exit_code(summary)


def show_search(result: "KneeResult", *, as_json: bool) -> int:
    """Write and print the report of a search. Returns its exit code."""
    from loadkit.analysis.knee.as_json import knee_json
    from loadkit.report.knee import terminal_knee, write_knee

    paths = write_knee(result)
    if as_json:
        print_json(knee_json(result))
    else:
        _print(terminal_knee(result, paths.html))
    return result.exit_code


def _print(text: object) -> None:
    from rich.console import Console

    Console(soft_wrap=True, highlight=False).print(text)
