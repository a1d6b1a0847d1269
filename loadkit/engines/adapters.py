"""How each engine wants to be asked. Facts about engines and the bodies they lead to; no sockets."""

from dataclasses import dataclass
from typing import Literal

import orjson

from loadkit.engines.reply import Api
from loadkit.errors import InputError


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of server. Fields that an engine does not know are never sent to it."""

    name: str
    token_ids_ok: bool = False
    """`/v1/completions` takes a prompt of token ids: exact lengths without a tokenizer."""
    ignores_eos: bool = False
    """Takes `ignore_eos`: with it the output has exactly `max_tokens` tokens."""
    min_tokens: bool = False
    """Takes `min_tokens`."""
    priority: Literal["lower", "higher"] | None = None
    """Which value of `priority` is served sooner by default; None = there is no such field."""
    cache_defeat: str | None = None
    """The body field that keeps a request out of the prefix cache."""
    stream_usage: tuple[Api, ...] = ("completions", "chat")
    """Where `stream_options.include_usage` may be asked for."""
    refuses_unknown_fields: bool = False
    health_path: str = "/health"
    """A path that answers without generating anything."""
    metrics_path: str | None = None


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            "vllm",
            token_ids_ok=True,
            ignores_eos=True,
            min_tokens=True,
            priority="lower",
            cache_defeat="cache_salt",
            metrics_path="/metrics",
        ),
        Engine(
            "loadkit-emulator",
            token_ids_ok=True,
            ignores_eos=True,
            min_tokens=True,
            priority="lower",
            cache_defeat="cache_salt",
            metrics_path="/metrics",
        ),
        Engine(
            "sglang",
            token_ids_ok=True,
            ignores_eos=True,
            min_tokens=True,
            priority="higher",
            cache_defeat="cache_salt",
            health_path="/ready",  # its /health generates a token, which counts in its metrics
            metrics_path="/metrics",
        ),
        Engine(
            "llamacpp",
            token_ids_ok=True,
            ignores_eos=True,
            cache_defeat="cache_prompt",
            metrics_path="/metrics",
        ),
        # Usage comes by itself on the last chunk; asking for it is a 422, as any unknown field.
        Engine("transformers", stream_usage=(), refuses_unknown_fields=True),
        Engine("tgi", stream_usage=("chat",), metrics_path="/metrics"),
        Engine("openai", refuses_unknown_fields=True, health_path="/v1/models"),
    )
}
"""`openai` is any server of the plain OpenAI API that was not recognised."""

_PATHS: dict[Api, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


def to_json(text: str) -> bytes:
    """A prompt's text as the JSON that `encode_body` takes."""
    return orjson.dumps(text)


def request_path(api: Api) -> str:
    return _PATHS[api]


def encode_body(  # noqa: PLR0913 — one keyword per field of the body
    engine: Engine,
    api: Api,
    *,
    prompt_json: bytes,
    model: str,
    output_tokens: int,
    priority: int | None = None,
    stream: bool = True,
) -> bytes:
    """The JSON body of one request, as close to exactly `output_tokens` as the engine allows.

    `prompt_json` is JSON already and is not encoded again: a list of token ids or a string for
    completions, a string for chat. `priority` is in our sense (0 = normal, lower = sooner).
    Raises InputError for token ids that the engine or the API cannot take.
    """
    if prompt_json.startswith(b"[") and (api == "chat" or not engine.token_ids_ok):
        raise InputError(
            f"{engine.name} does not take token ids as a prompt over the {api} API",
            hint="use text prompts",
        )
    fields = {
        "model": model,
        **_length_fields(engine, output_tokens),
        **_priority_field(engine, priority),
        **_stream_fields(engine, api, stream=stream),
    }
    return orjson.dumps(fields)[:-1] + b"," + _prompt_field(api, prompt_json) + b"}"


def recorded_body(
    engine: Engine, api: Api, payload: bytes, *, model: str, stream: bool = True
) -> bytes:
    """A recorded request body, verbatim but for the model and the way of answering.

    Raises InputError when it is not a JSON object.
    """
    try:
        fields = orjson.loads(payload)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise InputError("a recorded request body is not a JSON object", hint="look at `payload`")
    return orjson.dumps({**fields, "model": model, **_stream_fields(engine, api, stream=stream)})


def engine_priority(engine: Engine, priority: int) -> int | None:
    """Our priority (lower = sooner) in the engine's sense; None where it has none."""
    if engine.priority is None:
        return None
    return priority if engine.priority == "lower" else -priority


def _length_fields(engine: Engine, output_tokens: int) -> dict[str, object]:
    fields: dict[str, object] = {"max_tokens": output_tokens}
    if engine.min_tokens:
        fields["min_tokens"] = output_tokens
    if engine.ignores_eos:
        fields["ignore_eos"] = True
    return fields


def _priority_field(engine: Engine, priority: int | None) -> dict[str, object]:
    value = None if priority is None else engine_priority(engine, priority)
    return {} if value is None else {"priority": value}


def _stream_fields(engine: Engine, api: Api, *, stream: bool) -> dict[str, object]:
    if stream and api in engine.stream_usage:
        return {"stream": True, "stream_options": {"include_usage": True}}
    return {"stream": stream}


def _prompt_field(api: Api, prompt_json: bytes) -> bytes:
    if api == "chat":
        return b'"messages":[{"role":"user","content":' + prompt_json + b"}]"
    return b'"prompt":' + prompt_json
