"""`loadkit sim`."""

import gc
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadkit import units
from loadkit.cli.output import print_json
from loadkit.errors import InputError

if TYPE_CHECKING:
    from loadkit.core import Policy
    from loadkit.model import Slo
    from loadkit.simulate import SimulatedRun

_ENGINE = "Engine model (token level)"


def sim(  # noqa: PLR0913  (one parameter per flag)
    trace: Annotated[
        Path, typer.Argument(help="Trace in any known format (`loadkit trace show`).")
    ],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P",
            help="reserve:8+preempt; priority,aging=1h,floor=8; fifo,queue=100; or a .toml file. "
            "Repeatable.  [default: fifo]",
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            metavar="slot|token",
            help="slot: a job holds a slot for its service time. token: the engine model, step by "
            "step.  [default: slot where the trace has service_s, else token]",
        ),
    ] = None,
    slots: Annotated[int, typer.Option(min=1, help="Slots (max_num_seqs).")] = 64,
    horizon: Annotated[
        str | None, typer.Option(help="Stop at this instant.  [default: when all has ended]")
    ] = None,
    tick: Annotated[
        str | None, typer.Option(help="Slot level: decide on this grid only, e.g. 1s.")
    ] = None,
    preempt_cost: Annotated[
        str, typer.Option(help="Slot level: slot time that an eviction costs its victim.")
    ] = "0s",
    batch_service: Annotated[
        str, typer.Option(help="Slot level: 0.5x = batch jobs hold their slot half as long.")
    ] = "1x",
    late: Annotated[str, typer.Option(help="Bound of `late_share`.")] = "2s",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="New run directory; with many policies, one in it for each and a `comparison`.",
        ),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            help="For the comparison: LANE:METRIC:pNN:DURATION (repeatable).",
        ),
    ] = None,
    speedup: Annotated[str, typer.Option(help="2x = everything twice as fast.")] = "1x",
    scale: Annotated[str, typer.Option(help="0.5x = half of the sessions.")] = "1x",
    window: Annotated[str, typer.Option(help="Part of the recording, e.g. 0s:10m.")] = "0s:",
    lane: Annotated[list[str] | None, typer.Option(help="Only this lane (repeatable).")] = None,
    profile: Annotated[
        str,
        typer.Option(
            help="Speed: h100-8b | steady | tiny, or a .toml file of your own.",
            rich_help_panel=_ENGINE,
        ),
    ] = "h100-8b",
    kv_blocks: Annotated[
        int | None, typer.Option(help="KV cache blocks.", rich_help_panel=_ENGINE)
    ] = None,
    block_size: Annotated[int, typer.Option(help="Tokens a block.", rich_help_panel=_ENGINE)] = 16,
    max_model_len: Annotated[
        int | None, typer.Option(help="Most tokens a request.", rich_help_panel=_ENGINE)
    ] = None,
    max_batched_tokens: Annotated[
        int | None, typer.Option(help="Token budget of a step.", rich_help_panel=_ENGINE)
    ] = None,
    chunked_prefill: Annotated[
        bool, typer.Option(help="Compute long prompts in chunks.", rich_help_panel=_ENGINE)
    ] = True,
    chunk_size: Annotated[
        int | None, typer.Option(help="Most tokens of a chunk.", rich_help_panel=_ENGINE)
    ] = None,
    prefix_cache: Annotated[
        bool, typer.Option(help="Keep and share prefixes.", rich_help_panel=_ENGINE)
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; without -o nothing is compared: fastest.")
    ] = False,
) -> None:
    """Put a trace through one policy or many, in virtual time.

    Several policies end in the tables of `loadkit compare`: what each costs the batch, and which meets
    every --slo at the least. With -o they end in its report too, and every policy leaves a run directory
    like that of a live run.

    \b
    Example:
      loadkit sim day.parquet --slots 64 --policy fifo --policy reserve:8+preempt \\
        -o runs/policies --slo interactive:queue_wait:p99:2s
    """
    gc.disable()  # nothing here is cyclic, and looking for cycles costs a third of the time
    from loadkit.cli.emulate import engine_limits, read_profile
    from loadkit.schedule import Transforms
    from loadkit.sim import SlotOptions
    from loadkit.simulate import SimOptions, simulate

    speed = read_profile(profile)
    slos = [units.slo(text) for text in slo or ()]
    if slos and (len(set(policy or ())) < 2 or (as_json and output is None)):
        raise InputError("--slo is for the comparison", hint="two policies or more; -o with --json")
    options = SimOptions(
        trace=trace,
        policies=[read_policy(text) for text in policy or ["fifo"]],
        level=_level(level),
        slots=SlotOptions(
            slots=slots,
            tick_s=None if tick is None else _positive(tick, "--tick"),
            preempt_cost_s=units.duration_s(preempt_cost),
            horizon_s=None if horizon is None else _positive(horizon, "--horizon"),
        ),
        limits=engine_limits(
            slots=slots,
            kv_blocks=kv_blocks or speed.kv_blocks,
            block_tokens=block_size,
            max_model_len=max_model_len,
            budget=max_batched_tokens,
            chunk_tokens=chunk_size,
            chunked=chunked_prefill,
            prefix_cache=prefix_cache,
        ),
        profile=profile,
        cost=speed.cost,
        transforms=Transforms(
            speedup=units.factor(speedup),
            scale=units.factor(scale),
            window_s=units.window_s(window),
            lanes=tuple(lane or ()),
        ),
        batch_service=units.factor(batch_service),
        late_s=units.duration_s(late),
        output=output,
        command=sys.argv,
    )
    runs = simulate(options, lambda text: typer.echo(text, err=True))
    many = len({run.numbers["policy"] for run in runs}) > 1
    comparison = output / "comparison" if output and many else None
    if not as_json:
        _print_notes(runs)
    if not as_json and not many:
        _print_table(runs, late)
    if many and (comparison or not as_json):
        _compare(comparison, runs, slos, options.late_s, quiet=as_json)
    if as_json:
        told = [run.numbers for run in runs]
        print_json({"policies": told, "comparison": comparison and str(comparison)})


def _compare(
    folder: Path | None,
    runs: "list[SimulatedRun]",
    slos: "list[Slo]",
    late_s: float,
    *,
    quiet: bool,
) -> None:
    """The tables of `loadkit compare`, the first policy as the baseline; its report into the folder."""
    from rich.console import Console

    from loadkit.analysis.comparison import compare_arms
    from loadkit.report.comparison import terminal_comparison, write_comparison

    arms: dict[str, list[SimulatedRun]] = {}
    for run in runs:
        arms.setdefault(run.numbers["policy"], []).append(run)
    found = compare_arms(arms, slos=slos, late_s=late_s)
    if folder:
        write_comparison(folder, found, shlex.join(["loadkit", *sys.argv[1:]]))
    if not quiet:
        Console(soft_wrap=True, highlight=False).print(terminal_comparison(found, folder))


def read_policy(text: str) -> "Policy":
    """A policy string, or the TOML file of that name. Raises InputError."""
    from loadkit.core import PolicyError, parse_policy, policy_from_toml

    try:
        if text.endswith(".toml"):
            path = Path(text)
            return policy_from_toml(path.read_text("utf-8"), path.stem)
        return parse_policy(text)
    except PolicyError as error:
        raise InputError(f"policy {text!r}: {error}", hint=error.hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{text}: cannot be read ({error})", hint="check the path") from error


def _level(text: str | None) -> Any:
    if text not in (None, "slot", "token"):
        raise InputError(f"unknown level {text!r}", hint="slot or token")
    return text


def _positive(text: str, flag: str) -> float:
    seconds = units.duration_s(text)
    if seconds <= 0:
        raise InputError(f"{flag} {text} is not above 0", hint=f"for example {flag} 1s")
    return seconds


def _print_table(runs: "list[SimulatedRun]", late: str) -> None:
    from rich.console import Console

    from loadkit.cli.sim_view import policy_table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 140
    console.print(policy_table([run.numbers for run in runs], late))


def _print_notes(runs: "list[SimulatedRun]") -> None:
    for numbers in (run.numbers for run in runs):
        for text in (*numbers["warnings"], numbers.get("run")):
            if text:
                typer.echo(f"{numbers['policy']}: {text}")
