"""Version and capacity, from the paths where each engine tells them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadkit.engines.reply import one_line

Ask = Callable[[str], Awaitable[object]]
"""Path → its JSON, None where it cannot be had."""


@dataclass(frozen=True, slots=True)
class Facts:
    version: str | None = None
    max_model_len: int | None = None
    capacity: Mapping[str, float] = field(default_factory=dict)
    policy: str | None = None
    """How it schedules, in its own words."""


async def engine_facts(engine: str, ask: Ask) -> Facts:
    """What `engine` tells outside `/metrics` and `/v1/models`; all unknown for a plain server."""
    reader = _READERS.get(engine)
    return await reader(ask) if reader else Facts()


async def _vllm(ask: Ask) -> Facts:
    # The slots are told in development mode only, as part of the whole configuration.
    config = at(await ask("/server_info?config_format=json"), "vllm_config", "scheduler_config")
    return Facts(
        version=_text(at(await ask("/version"), "version")),
        capacity=_slots(at(config, "max_num_seqs")) | _budget(at(config, "max_num_batched_tokens")),
        policy=_text(at(config, "policy")),
    )


async def _emulator(ask: Ask) -> Facts:
    told = await ask("/version")
    return Facts(version=_text(at(told, "version")), policy=_text(at(told, "policy")))


async def _sglang(ask: Ask) -> Facts:
    info = await ask("/server_info") or await ask("/get_server_info")
    return Facts(
        version=_text(at(info, "version")),
        max_model_len=_count(at(info, "context_length")),
        capacity=_slots(at(info, "max_running_requests")),
    )


async def _llamacpp(ask: Ask) -> Facts:
    props = await ask("/props")
    return Facts(
        version=_text(at(props, "build_info")),
        max_model_len=_count(at(props, "default_generation_settings", "n_ctx")),
        capacity=_slots(at(props, "total_slots")),
    )


async def _tgi(ask: Ask) -> Facts:
    info = await ask("/info")
    return Facts(
        version=_text(at(info, "version")), max_model_len=_count(at(info, "max_total_tokens"))
    )


_READERS: Mapping[str, Callable[[Ask], Awaitable[Facts]]] = {
    "vllm": _vllm,
    "loadkit-emulator": _emulator,
    "sglang": _sglang,
    "llamacpp": _llamacpp,
    "tgi": _tgi,
}


def at(value: object, *names: str) -> Any:
    """The value inside nested JSON objects; None where any of them is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _slots(value: object) -> dict[str, float]:
    count = _count(value)
    return {"max_num_seqs": float(count)} if count else {}


def _budget(value: object) -> dict[str, float]:
    count = _count(value)
    return {"max_num_batched_tokens": float(count)} if count else {}
