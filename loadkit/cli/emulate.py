"""`loadkit emulate`."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadkit.errors import InputError

if TYPE_CHECKING:
    from loadkit.core import EngineLimits, Policy, Profile
    from loadkit.emulator import Fault

_ENGINE = "Engine"
_TEST = "Test"


def emulate(  # noqa: PLR0913  # a command line is a list of options
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 = any free port.")] = 8000,
    model: Annotated[str, typer.Option(help="Name of the model it says it serves.")] = "emulated",
    policy: Annotated[
        str,
        typer.Option(
            help="As for `loadkit sim`: fcfs, priority, reserve:8+preempt, … or a .toml file.",
            rich_help_panel=_ENGINE,
        ),
    ] = "fcfs",
    slots: Annotated[
        int, typer.Option(help="Sequences in one step (max_num_seqs).", rich_help_panel=_ENGINE)
    ] = 64,
    kv_blocks: Annotated[
        int | None,
        typer.Option(help="KV cache blocks; default: the profile's.", rich_help_panel=_ENGINE),
    ] = None,
    block_size: Annotated[
        int, typer.Option(help="Tokens of a KV block.", rich_help_panel=_ENGINE)
    ] = 16,
    max_model_len: Annotated[
        int | None,
        typer.Option(
            help="Most tokens of prompt and output; default: 32768 or what the blocks hold.",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    max_batched_tokens: Annotated[
        int | None,
        typer.Option(
            help="Token budget of a step; default: 2048, or a whole prompt without chunks.",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    chunked_prefill: Annotated[
        bool, typer.Option(help="Compute long prompts in chunks.", rich_help_panel=_ENGINE)
    ] = True,
    chunk_size: Annotated[
        int | None,
        typer.Option(
            help="Most tokens of one chunk; default: the budget.", rich_help_panel=_ENGINE
        ),
    ] = None,
    prefix_cache: Annotated[
        bool, typer.Option(help="Keep and share prompt prefixes.", rich_help_panel=_ENGINE)
    ] = True,
    max_queue: Annotated[
        int | None,
        typer.Option(
            min=1, help="Refuse arrivals that find so many waiting.", rich_help_panel=_ENGINE
        ),
    ] = None,
    busy_status: Annotated[
        int, typer.Option(help="HTTP status of a refusal: 503 | 429.", rich_help_panel=_ENGINE)
    ] = 503,
    drop_expired: Annotated[
        bool,
        typer.Option(help="Give up what has not started by its deadline.", rich_help_panel=_ENGINE),
    ] = False,
    profile: Annotated[
        str,
        typer.Option(
            help="Speed: h100-8b | steady | tiny, or a .toml file of your own.",
            rich_help_panel=_ENGINE,
        ),
    ] = "h100-8b",
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the API key to ask for.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Write what was really sent, and when (JSON lines).", rich_help_panel=_TEST
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="Go wrong on purpose, e.g. 'stall:at=5s,for=2s'; may be repeated.",
            rich_help_panel=_TEST,
        ),
    ] = None,
    faults: Annotated[
        Path | None, typer.Option(help="The same as a JSON file.", rich_help_panel=_TEST)
    ] = None,
    port_file: Annotated[
        Path | None, typer.Option(help="Write the port here when ready.", rich_help_panel=_TEST)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say that it is ready in JSON.")] = False,
) -> None:
    """Serve an emulated engine behind an OpenAI-compatible API, until Ctrl-C.

    Example: loadkit emulate --policy priority --slots 64 --kv-blocks 2048 --ledger sent.jsonl

    Faults: stall slow error truncate reset refuse restart unhealthy, with at=5s for=2s every=10
    after=5 factor=3x status=429 where they apply.
    """
    import asyncio

    from loadkit.emulator import EmulatorConfig, parse_fault, read_faults, serve

    speed = read_profile(profile)
    scripted: tuple[Fault, ...] = tuple(parse_fault(text) for text in fault or ())
    config = EmulatorConfig(
        model=model,
        host=host,
        port=port,
        port_file=port_file,
        policy=_policy(policy, max_queue, drop_expired=drop_expired),
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
        cost=speed.cost,
        busy_status=_busy_status(busy_status),
        api_key=_api_key(api_key_env),
        ledger=ledger,
        faults=scripted + (read_faults(faults) if faults else ()),
    )

    def ready(url: str) -> None:
        typer.echo(json.dumps({"url": url, "model": model}) if as_json else url)

    asyncio.run(serve(config, ready))


def _policy(text: str, max_queue: int | None, *, drop_expired: bool) -> "Policy":
    from loadkit.cli.sim import read_policy
    from loadkit.core import queue_bound
    from loadkit.core.admission import all_of

    policy = read_policy(text)
    if max_queue is not None:
        admit = all_of(policy.admit, queue_bound(max_queue))
        policy = replace(policy, name=f"{policy.name},queue={max_queue}", admit=admit)
    if drop_expired and not policy.drop_expired:
        policy = replace(policy, name=f"{policy.name},drop-expired", drop_expired=True)
    return policy


def engine_limits(  # noqa: PLR0913
    *,
    slots: int,
    kv_blocks: int,
    block_tokens: int,
    max_model_len: int | None,
    budget: int | None,
    chunk_tokens: int | None,
    chunked: bool,
    prefix_cache: bool,
) -> "EngineLimits":
    """The size of an engine from flags. Raises InputError."""
    from loadkit.core import EngineLimits

    if chunk_tokens is not None and not chunked:
        raise InputError("--chunk-size cannot be used with --no-chunked-prefill")
    longest = max_model_len or min(32_768, kv_blocks * block_tokens)
    budget = budget or max(slots, 2048 if chunked else longest)
    try:
        return EngineLimits(
            max_num_seqs=slots,
            max_num_batched_tokens=budget,
            kv_blocks=kv_blocks,
            block_tokens=block_tokens,
            max_model_len=longest,
            chunk_tokens=(chunk_tokens or budget) if chunked else None,
            prefix_cache=prefix_cache,
        )
    except ValueError as error:
        raise InputError(
            f"the engine cannot be built: {error}",
            hint="see --slots --kv-blocks --block-size --max-model-len --max-batched-tokens",
        ) from error


def read_profile(text: str) -> "Profile":
    """A profile's name, or the TOML file of that name. Raises InputError."""
    from loadkit.core import PROFILES, profile_from_toml

    if not text.endswith(".toml"):
        if text not in PROFILES:
            hint = f"known: {', '.join(PROFILES)}, or a .toml file"
            raise InputError(f"unknown profile {text!r}", hint=hint)
        return PROFILES[text]
    try:
        return profile_from_toml(Path(text).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{text}: cannot be read ({error.strerror})") from error
    except ValueError as error:  # bad UTF-8 and bad TOML are ValueErrors too
        hint = "for example: base_s = 0.02, prefill_s_per_token = 40e-6, kv_blocks = 4096"
        raise InputError(f"{text}: {error}", hint=hint) from error


def _busy_status(status: int) -> int:
    if status not in (429, 503):
        raise InputError(f"--busy-status {status} is not a refusal", hint="503 as vLLM, or 429")
    return status


def _api_key(name: str | None) -> str | None:
    if name is None:
        return None
    if not os.environ.get(name):
        raise InputError(f"environment variable {name} is empty", hint=f"export {name}=…")
    return os.environ[name]
