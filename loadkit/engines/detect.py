"""Which engine is this? Judged from what a server says without being asked to generate."""

from collections.abc import Mapping
from typing import Any

from loadkit.engines.metrics import metric_names

_METRIC_PREFIXES = {
    "loadkit_": "loadkit-emulator",  # before vllm_: the emulator speaks both
    "vllm_": "vllm",
    "sglang_": "sglang",
    "llamacpp_": "llamacpp",
    "tgi_": "tgi",
}
_OWNERS = {
    "loadkit": "loadkit-emulator",
    "loadkit-emulator": "loadkit-emulator",
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
}
_SERVERS = {"loadkit": "loadkit-emulator", "llama.cpp": "llamacpp"}
_OWN_PATHS = {"/load_model": "transformers", "/generate_stream": "tgi"}


def detect_engine(
    *,
    models: object = None,
    metrics: str | None = None,
    server: str | None = None,
    openapi: object = None,
) -> str | None:
    """Name of the engine in `ENGINES`, or None when nothing tells.

    `models` is the JSON of `/v1/models`, `metrics` the text of `/metrics`, `server` the response
    header, `openapi` the JSON of `/openapi.json`.
    """
    return (
        # Metrics first: an engine that poses as another in its API still names its own.
        _by_metrics(metrics or "") or _by_owner(models) or _by_server(server) or _by_path(openapi)
    )


def model_cards(models: object) -> list[Mapping[str, Any]]:
    """The entries of `/v1/models`; empty for anything of another shape."""
    data = models.get("data") if isinstance(models, dict) else None
    entries = data if isinstance(data, list) else []
    return [card for card in entries if isinstance(card, dict) and isinstance(card.get("id"), str)]


def _by_owner(models: object) -> str | None:
    owners = (str(card.get("owned_by")).lower() for card in model_cards(models))
    return next((_OWNERS[owner] for owner in owners if owner in _OWNERS), None)


def _by_server(server: str | None) -> str | None:
    words = (server or "").lower().partition("/")[0].strip()
    return _SERVERS.get(words)


def _by_metrics(text: str) -> str | None:
    names = list(metric_names(text))
    for prefix, engine in _METRIC_PREFIXES.items():
        if any(name.startswith(prefix) for name in names):
            return engine
    return None


def _by_path(openapi: object) -> str | None:
    paths = openapi.get("paths") if isinstance(openapi, dict) else None
    known = paths if isinstance(paths, dict) else {}
    return next((engine for path, engine in _OWN_PATHS.items() if path in known), None)
