"""`loadkit gate`."""

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from loadkit import units
from loadkit.cli.arguments import one_of
from loadkit.cli.output import print_json
from loadkit.errors import InputError

_BETWEEN = "\0"
"""Stands for `--` on its own, so that options may follow NEW too."""


class GateCommand(TyperCommand):
    """Keeps the `--` between the two releases, which would else end the options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_BETWEEN if arg == "--" else arg for arg in args])


def gate(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="BASE… -- NEW…", help="Runs, or folders of runs, of both."),
    ],
    *,
    max_regress: Annotated[
        list[str] | None,
        typer.Option(
            help="[LANE:]METRIC:pNN:PERCENT that may be lost, e.g. ttft:p99:10% (repeatable).  [default: "
            "ttft:p50:5%, ttft:p99:10%, tpot:p50:5%, e2e:p99:10%, goodput_share:1%, completed:1%]"
        ),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(help="For goodput: LANE:METRIC:pNN:DURATION.  [default: those of the runs]"),
    ] = None,
    inconclusive: Annotated[
        str, typer.Option(help="pass or fail: what the exit code makes of INCONCLUSIVE.")
    ] = "fail",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the report.  [default: gate-TIME]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout.")] = False,
) -> None:
    """Judge a release: BASE… -- NEW…, runs of both on the same schedules.

    Runs are paired in the order in which they were made, under each load by itself. Make them in turn
    (A B B A …), five pairs or more: less settles nothing. A folder of runs is one argument.

    \b
    Example:
      loadkit gate runs/v1 -- runs/v2 --max-regress ttft:p99:10% --max-regress tpot:p50:5%

    Exit codes: 0 passed, 1 a regression (or inconclusive, unless --inconclusive pass), 2 bad usage or
    input, 3 an invalid run among them.
    """
    from rich.console import Console

    from loadkit.analysis.gate import gate as judge
    from loadkit.analysis.gate import rule
    from loadkit.analysis.gate.as_json import gate_json
    from loadkit.report.gate import terminal_gate, write_gate
    from loadkit.report.gate.write import refuse_foreign

    passes = one_of("--inconclusive", inconclusive, ("pass", "fail")) == "pass"
    base, new = _sides(runs)
    folder = output or Path(f"gate-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005  (local, for people)
    refuse_foreign(folder)
    found = judge(
        base,
        new,
        [rule(text) for text in max_regress or ()],
        [units.slo(text) for text in slo or ()],
    )
    command = shlex.join(["loadkit", *sys.argv[1:]])
    page = write_gate(folder, found, command, inconclusive_passes=passes)
    if json:
        print_json(gate_json(found))
    else:
        Console(soft_wrap=True, highlight=False).print(terminal_gate(found, page))
    raise typer.Exit(found.exit_code(inconclusive_passes=passes))


def _sides(words: list[str]) -> tuple[list[Path], list[Path]]:
    if words.count(_BETWEEN) != 1:
        raise InputError(
            "the runs of the two releases are not told apart",
            hint="loadkit gate BASE… -- NEW…, for example: loadkit gate runs/v1 -- runs/v2",
        )
    at = words.index(_BETWEEN)
    return [Path(word) for word in words[:at]], [Path(word) for word in words[at + 1 :]]
