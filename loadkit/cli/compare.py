"""`loadkit compare`."""

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from loadkit import units
from loadkit.cli.output import print_json


def compare(  # noqa: PLR0913, PLR0917  (one parameter per flag)
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN [RUN …]",
            help="Run directories, or folders with the repeats of one. The first is the baseline.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the report.  [default: compare-TIME]"),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of each RUN, in order; equal names are repeats.  [default: its policy, or its folder]"
        ),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            help="LANE:METRIC:pNN:DURATION (repeatable).  [default: those the runs were made with]"
        ),
    ] = None,
    lane: Annotated[
        list[str] | None, typer.Option(help="Compare only this lane (repeatable).")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare only this: ttft:p99, goodput_share, … (repeatable). Fewer numbers prove more."
        ),
    ] = None,
    late: Annotated[str, typer.Option(help="Queue wait beyond which a request is late.")] = "2s",
    json: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout.")] = False,
) -> None:
    """Compare policies, releases or servers over one trace, with intervals and verdicts.

    All runs must have been offered the same schedule. Live runs are judged over repeats, pair by pair:
    a single pair is inconclusive, five are a good start, made in turn (A B B A …). Simulated runs are
    exact.

    \b
    Example:
      loadkit compare runs/fifo runs/reserve-8 --slo interactive:ttft:p99:500ms -o runs/which-policy
      loadkit compare --label old --label new runs/old-repeats runs/new-repeats

    Exit codes: 0 done; 1 no run meets every --slo or, without --slo and of two, the second is worse in
    something; 2 bad usage or input; 3 an invalid run among them.
    """
    from rich.console import Console

    from loadkit.analysis.comparison import compare as compare_runs
    from loadkit.analysis.comparison import comparison_exit_code
    from loadkit.report.comparison import as_json, terminal_comparison, write_comparison
    from loadkit.report.comparison.write import refuse_foreign

    folder = output or Path(f"compare-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005  (local, for people)
    refuse_foreign(folder)
    found = compare_runs(
        runs,
        labels=label or (),
        slos=[units.slo(text) for text in slo or ()],
        lanes=lane or (),
        metrics=metric or (),
        late_s=units.duration_s(late),
    )
    write_comparison(folder, found, shlex.join(["loadkit", *sys.argv[1:]]))
    if json:
        print_json(as_json(found))
    else:
        Console(soft_wrap=True, highlight=False).print(terminal_comparison(found, folder))
    raise typer.Exit(comparison_exit_code(found))
