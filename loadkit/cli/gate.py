"""`loadkit gate`."""

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from loadkit import units
from loadkit.cli.arguments import base_url as base_url_of
from loadkit.cli.arguments import one_of, positive_s, rates_rps, recorded_command, say
from loadkit.cli.output import print_json
from loadkit.errors import InputError

_BETWEEN = "\0"
"""Stands for `--` on its own, so that options may follow NEW too."""
_JUDGE = "judge"


class GateGroup(TyperGroup):
    """`loadkit gate BASE… -- NEW…` means `loadkit gate judge …`: the name may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in {"-h", "--help"})
        return super().parse_args(ctx, args if named or not args else [_JUDGE, *args])


class JudgeCommand(TyperCommand):
    """Keeps the `--` between the two releases, which would else end the options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_BETWEEN if arg == "--" else arg for arg in args])


app = typer.Typer(
    cls=GateGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Judge a release over pairs of runs: `loadkit gate BASE… -- NEW…`, or `loadkit gate run` for all.",
)
MaxRegress = Annotated[
    list[str] | None,
    typer.Option(
        help="[LANE:]METRIC:pNN:PERCENT that may be lost, e.g. ttft:p99:10% (repeatable).  [default: "
        "ttft:p50:5%, ttft:p99:10%, tpot:p50:5%, e2e:p99:10%, goodput_share:1%, completed:1%]"
    ),
]
Inconclusive = Annotated[
    str, typer.Option(help="pass or fail: what the exit code makes of INCONCLUSIVE.")
]


@app.command(cls=JudgeCommand)
def judge(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="BASE… -- NEW…", help="Runs, or folders of runs, of both."),
    ],
    *,
    max_regress: MaxRegress = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(help="For goodput: LANE:METRIC:pNN:DURATION.  [default: those of the runs]"),
    ] = None,
    inconclusive: Inconclusive = "fail",
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
    passes = one_of("--inconclusive", inconclusive, ("pass", "fail")) == "pass"
    base, new = _sides(runs)
    folder = output or Path(f"gate-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005  (local, for people)
    raise typer.Exit(
        _verdict(base, new, max_regress or [], slo or [], folder, passes=passes, as_json=json)
    )


@app.command()
def run(  # noqa: PLR0913  (one parameter per flag)
    *,
    trace: Annotated[Path, typer.Option(help="Trace in any known format.")],
    base_url: Annotated[str, typer.Option(help="Server of the last release.")],
    new_url: Annotated[str, typer.Option(help="Server of the new one; the same URL for an A/A.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of it all; an unfinished one goes on.")
    ],
    rates: Annotated[
        str | None, typer.Option(help="Loads, e.g. 10,14rps.  [default: the trace's own rate]")
    ] = None,
    search: Annotated[
        Path | None,
        typer.Option(
            help="Take --loads of the capacity that this `loadkit knee` folder has found."
        ),
    ] = None,
    loads: Annotated[
        str, typer.Option(help="With --search: shares of the capacity.")
    ] = "0.5,0.7,0.85",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of runs under each load.")] = 5,
    measure: Annotated[str, typer.Option(help="Length of a run.")] = "2m",
    max_regress: MaxRegress = None,
    slo: Annotated[
        list[str] | None, typer.Option(help="For goodput: LANE:METRIC:pNN:DURATION (repeatable).")
    ] = None,
    inconclusive: Inconclusive = "fail",
    seed: Annotated[int, typer.Option(help="Of the parts of the trace that are drawn.")] = 1,
    model: Annotated[str | None, typer.Option(help="[default: the one that is served]")] = None,
    api: Annotated[str, typer.Option(help="completions (exact lengths) or chat.")] = "completions",
    workers: Annotated[int, typer.Option(min=1, help="Locust worker processes.")] = 1,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable with the API key (never the key itself)."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout.")] = False,
) -> None:
    """Run both releases in turn on the same requests (A B B A …), drain in between, and judge.

    \b
    Example:
      loadkit gate run --trace day.parquet --base-url http://old:8000 --new-url http://new:8000 \\
        --search runs/knee --pairs 5 --max-regress ttft:p99:10% -o runs/gate

    After Ctrl-C or a crash the same command goes on. Exit codes: those of `loadkit gate`, and 4 when a
    target is unreachable.
    """
    from loadkit.analysis.gate import rule
    from loadkit.gate import PairsOptions, run_pairs
    from loadkit.model import Target
    from loadkit.replay import ReplayOptions, replay

    passes = one_of("--inconclusive", inconclusive, ("pass", "fail")) == "pass"
    for text in max_regress or ():
        rule(text)  # a word that is unknown is told before anything is sent
    wanted = tuple(units.slo(text) for text in slo or ())
    kind = one_of("--api", api, ("completions", "chat"))
    targets = {
        side: Target(url=base_url_of(url), api=kind, model=model, api_key_env=api_key_env)
        for side, url in (("base", base_url), ("new", new_url))
    }

    def measured(side: str, part: Path, folder: Path) -> None:
        options = ReplayOptions(
            trace=part,
            target=targets[side],
            output=folder,
            slos=wanted,
            workers=workers,
            command=recorded_command(sys.argv[1:]),
        )
        _summary, error = replay(options, say)
        if error is not None:
            raise error

    options = PairsOptions(
        trace=trace,
        rates_rps=_loads_rps(rates, search, loads, trace),
        pairs=pairs,
        measure_s=positive_s("--measure", measure),
        output=output,
        measure=measured,
        seed=seed,
    )
    sides = run_pairs(options, say)
    folder = output / "report"
    raise typer.Exit(
        _verdict(
            [sides["base"]], [sides["new"]], max_regress or [], slo or [], folder,
            passes=passes, as_json=json,
        )
    )  # fmt: skip


def _verdict(  # noqa: PLR0913  (what the two commands share)
    base: list[Path],
    new: list[Path],
    rules: list[str],
    slos: list[str],
    folder: Path,
    *,
    passes: bool,
    as_json: bool,
) -> int:
    """Judge, write and print. Returns the exit code."""
    from rich.console import Console

    from loadkit.analysis.gate import gate, rule
    from loadkit.analysis.gate.as_json import gate_json
    from loadkit.report.gate import terminal_gate, write_gate
    from loadkit.report.gate.write import refuse_foreign

    refuse_foreign(folder)
    found = gate(base, new, [rule(text) for text in rules], [units.slo(text) for text in slos])
    command = shlex.join(recorded_command(sys.argv[1:]))
    page = write_gate(folder, found, command, inconclusive_passes=passes)
    if as_json:
        print_json(gate_json(found))
    else:
        Console(soft_wrap=True, highlight=False).print(terminal_gate(found, page))
    return found.exit_code(inconclusive_passes=passes)


def _loads_rps(
    rates: str | None, search: Path | None, loads: str, trace: Path
) -> tuple[float, ...]:
    if rates is not None and search is not None:
        raise InputError("--rates and --search name the loads twice", hint="give one of them")
    if rates is not None:
        return rates_rps("--rates", rates)
    if search is None:
        from loadkit.trace import read_table

        table = read_table(trace)
        return (table.rows / max(table.span_s, 1.0),)
    from loadkit.analysis.knee.result import read_result

    capacity = read_result(search).findings.capacity
    if capacity.rps is None:
        raise InputError(
            f"{search}: no capacity was found there: {capacity.status}", hint="name --rates instead"
        )
    return tuple(share * capacity.rps for share in rates_rps("--loads", loads))


def _sides(words: list[str]) -> tuple[list[Path], list[Path]]:
    if words.count(_BETWEEN) != 1:
        raise InputError(
            "the runs of the two releases are not told apart",
            hint="loadkit gate BASE… -- NEW…, for example: loadkit gate runs/v1 -- runs/v2",
        )
    at = words.index(_BETWEEN)
    return [Path(word) for word in words[:at]], [Path(word) for word in words[at + 1 :]]
