"""`loadkit knee`."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadkit import units
from loadkit.cli.arguments import (
    base_url,
    headers,
    one_of,
    positive_s,
    rates_rps,
    recorded_command,
    say,
)
from loadkit.errors import InputError

if TYPE_CHECKING:
    from loadkit.knee import Search

_SEARCH = "Search"
_ENGINE = "Simulated engine (--target sim:…)"
_SERVER = "Server"


def knee(  # noqa: PLR0913  (one parameter per flag)
    trace: Annotated[
        Path, typer.Argument(help="Trace in any known format (`loadkit trace show`).")
    ],
    *,
    target: Annotated[
        str,
        typer.Option(help="Base URL of the server, or sim:PROFILE (h100-8b, …, mine.toml)."),
    ],
    slo: Annotated[
        str, typer.Option(help="LANE:METRIC:pNN:DURATION, e.g. interactive:ttft:p99:500ms.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the search; an unfinished one goes on."),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            help="A load that is easy, e.g. 1rps.  [default: a quarter of the trace's]",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(help="A fixed ladder instead, e.g. 5,10,15rps.", rich_help_panel=_SEARCH),
    ] = None,
    scale_lane: Annotated[
        list[str] | None,
        typer.Option(
            help="Search the rate of this lane (repeatable); the others come as recorded.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    and_alone: Annotated[
        bool,
        typer.Option(
            "--and-alone",
            help="With --scale-lane: then once more without the other lanes, side by side.",
            rich_help_panel=_SEARCH,
        ),
    ] = False,
    lane: Annotated[
        list[str] | None,
        typer.Option(help="Send only this lane (repeatable).", rich_help_panel=_SEARCH),
    ] = None,
    warm: Annotated[
        str, typer.Option(help="Of every step, not measured.", rich_help_panel=_SEARCH)
    ] = "20s",
    measure: Annotated[
        str, typer.Option(help="Of every step, measured.", rich_help_panel=_SEARCH)
    ] = "60s",
    samples: Annotated[
        int | None,
        typer.Option(
            min=3, help="Steps close to the crossing.  [default: 16]", rich_help_panel=_SEARCH
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="No step begins that would end later, e.g. 30m.", rich_help_panel=_SEARCH
        ),
    ] = None,
    soak: Annotated[
        str,
        typer.Option(
            help="Confirm at the lower bound for so long, e.g. 10m.", rich_help_panel=_SEARCH
        ),
    ] = "0s",
    seed: Annotated[
        int, typer.Option(help="Of the parts of the trace that are drawn.", rich_help_panel=_SEARCH)
    ] = 1,
    trace_format: Annotated[
        str | None, typer.Option("--format", help="Format of the trace.  [default: detected]")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="[default: the one that is served]", rich_help_panel=_SERVER),
    ] = None,
    api: Annotated[
        str, typer.Option(help="completions (exact lengths) or chat.", rich_help_panel=_SERVER)
    ] = "completions",
    workers: Annotated[
        int, typer.Option(min=1, help="Locust worker processes.", rich_help_panel=_SERVER)
    ] = 1,
    timeout: Annotated[
        str, typer.Option(help="Per request, from its due instant.", rich_help_panel=_SERVER)
    ] = "10m",
    api_key_env: Annotated[
        str | None,
        typer.Option(
            help="Environment variable with the API key (never the key itself).",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(help="Extra request header, as for `replay`.", rich_help_panel=_SERVER),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificates to trust.", rich_help_panel=_SERVER)
    ] = None,
    insecure: Annotated[
        bool, typer.Option(help="Accept any certificate.", rich_help_panel=_SERVER)
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(help="vllm, sglang, …  [default: detected]", rich_help_panel=_SERVER),
    ] = None,
    metrics_url: Annotated[
        list[str] | None,
        typer.Option(help="Where to scrape metrics (repeatable).", rich_help_panel=_SERVER),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="As for `loadkit sim`.", rich_help_panel=_ENGINE)
    ] = "fifo",
    slots: Annotated[
        int, typer.Option(min=1, help="Slots (max_num_seqs).", rich_help_panel=_ENGINE)
    ] = 64,
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
    as_json: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout.")] = False,
) -> None:
    """Find the rate, and the utilisation, at which latency turns up, and say how sure that is.

    One step after another, each a normal run on a part of the trace of its own; the server drains in
    between. After Ctrl-C or a crash the same command goes on.

    \b
    Example:
      loadkit knee day.parquet --target http://127.0.0.1:8000 \\
        --slo interactive:ttft:p99:500ms --budget 30m -o runs/knee
      loadkit knee day.parquet --target sim:h100-8b --slo interactive:ttft:p99:500ms -o runs/knee

    The report is in OUTPUT/report; `loadkit report OUTPUT` makes it again.

    Exit codes: 0 found (and, with --soak, confirmed), 1 not found within the loads tried or not
    confirmed, 2 bad usage or input, 3 invalid steps (mostly: the client was too slow), 4 target
    unreachable.
    """
    from loadkit.cli.emulate import engine_limits, read_profile
    from loadkit.cli.knee_targets import context_tokens, live, simulated
    from loadkit.cli.report import show_search
    from loadkit.knee import KneeOptions, Search, find_both, find_knee
    from loadkit.knee.search import DEFAULT_SAMPLES
    from loadkit.model import Target

    if rates is not None and samples is not None:
        raise InputError("--rates names every step", hint="leave --samples out")
    wanted = units.slo(slo)
    search = Search(
        slo=wanted,
        start_rps=_start_rps(start, trace, trace_format, scale_lane or lane or ()),
        warm_s=units.duration_s(warm),
        measure_s=positive_s("--measure", measure),
        samples=samples or DEFAULT_SAMPLES,
        rates_rps=() if rates is None else rates_rps("--rates", rates),
        soak_s=units.duration_s(soak),
    )
    longest: int | None
    settings: dict[str, Any]
    if target.startswith("sim:"):
        speed = read_profile(target.removeprefix("sim:"))
        limits = engine_limits(
            slots=slots,
            kv_blocks=kv_blocks or speed.kv_blocks,
            block_tokens=block_size,
            max_model_len=max_model_len,
            budget=max_batched_tokens,
            chunk_tokens=chunk_size,
            chunked=chunked_prefill,
            prefix_cache=prefix_cache,
        )
        settings = {"policy": policy, **asdict(limits), "cost": asdict(speed.cost)}
        by = simulated(policy, limits, target.removeprefix("sim:"), speed.cost)
        longest = limits.max_model_len
    else:
        server = Target(
            url=base_url(target),
            api=one_of("--api", api, ("completions", "chat")),
            model=model,
            engine=engine,
            api_key_env=api_key_env,
            headers=headers(header or ()),
            ca_file=None if ca_file is None else str(ca_file),
            insecure=insecure,
        )
        longest = context_tokens(server)
        settings = {"api": api, "workers": workers, "timeout_s": positive_s("--timeout", timeout)}
        by = live(
            server,
            wanted,
            search.warm_s,
            workers=workers,
            timeout_s=settings["timeout_s"],
            metrics_urls=tuple(metrics_url or ()),
            command=recorded_command(sys.argv[1:]),
        )
    options = KneeOptions(
        trace=trace,
        trace_format=trace_format,
        search=search,
        output=output,
        measure=by,
        target=target,
        settings=settings,
        scaled=tuple(scale_lane or ()),
        lanes=tuple(lane or ()),
        seed=seed,
        max_model_len=longest,
        budget_s=_budget_s(budget, search, searches=2 if and_alone else 1),
    )
    found = find_both(options, say) if and_alone else find_knee(options, say)
    raise typer.Exit(show_search(found, as_json=as_json))


def _start_rps(
    text: str | None, trace: Path, trace_format: str | None, lanes: Sequence[str]
) -> float:
    """A quarter of the trace's own rate, where nothing is said."""
    if text is not None:
        return units.rate_rps(text)
    from loadkit.trace import read_table

    table = read_table(trace, trace_format)
    names = table.table["lane"].to_pylist()
    rows = sum(not lanes or name in lanes for name in names)
    return max(rows / max(table.span_s, 1.0) / 4, 0.01)


def _budget_s(text: str | None, search: "Search", searches: int) -> float:
    if text is None:
        return float("inf")
    from loadkit.knee.search import SAMPLE_WARMS

    budget_s = positive_s("--budget", text)
    warms = SAMPLE_WARMS if search.rates_rps else 1.0
    least_s = searches * (warms * search.warm_s + search.measure_s)
    if budget_s < least_s:
        raise InputError(
            f"--budget {text} is shorter than one step: that takes {least_s:g} s",
            hint="a search takes about 25 steps: a longer --budget, or shorter steps by --measure",
        )
    return budget_s
