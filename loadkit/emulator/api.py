"""Request bodies and headers → Ask, or the error that vLLM would answer with. No sockets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

import orjson

from loadkit.emulator import tokens
from loadkit.emulator.tokens import VOCAB_SIZE, Prompt

Api = Literal["completions", "chat"]

MAX_NAME_CHARS = 128
"""Of request ids, lanes and tenants: they come back in answers, labels and the ledger."""


class ApiError(Exception):
    """An answer other than 200."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "BadRequestError",
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.body = error_body(status, message, kind, param)


def error_body(
    status: int, message: str, kind: str, param: str | None = None
) -> dict[str, dict[str, Any]]:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation as asked for, checked."""

    api: Api
    prompt: Prompt
    max_tokens: int
    output_tokens: int
    """What the model will say: `max_tokens`, or fewer where it may stop by itself."""
    stream: bool
    include_usage: bool
    continuous_usage: bool
    priority: int
    cache_salt: str | None
    lane: str
    tenant: str | None
    deadline_in_s: float | None

    @property
    def finish_reason(self) -> str:
        return "length" if self.output_tokens == self.max_tokens else "stop"


def parse(api: Api, body: bytes, headers: Mapping[str, str], model: str, max_model_len: int) -> Ask:
    """Raises ApiError."""
    fields = parse_object(body, model)
    prompt = prompt_of(fields, api)
    max_tokens = _max_tokens(fields, api, len(prompt.tokens), max_model_len)
    usage = fields.get("stream_options") or {}
    if not isinstance(usage, dict):
        raise ApiError(400, "stream_options must be an object", param="stream_options")
    if not isinstance(salt := fields.get("cache_salt"), str | None):
        raise ApiError(400, "cache_salt must be a string", param="cache_salt")
    if _integer(fields, "n", 1) != 1:
        raise ApiError(400, "only n=1 is emulated", param="n")
    include_usage = bool(usage.get("include_usage"))
    return Ask(
        api=api,
        prompt=prompt,
        max_tokens=max_tokens,
        output_tokens=_output_tokens(fields, prompt, max_tokens),
        stream=bool(fields.get("stream")),
        include_usage=include_usage,
        continuous_usage=include_usage and bool(usage.get("continuous_usage_stats")),
        priority=_priority(fields, headers),
        cache_salt=salt,
        lane=_name(headers, "X-Loadkit-Lane") or "interactive",
        tenant=_name(headers, "X-Loadkit-Tenant"),
        deadline_in_s=_header_number(headers, "X-Loadkit-Deadline-S"),
    )


def parse_object(body: bytes, model: str) -> dict[str, Any]:
    """A JSON object that asks for this model or for none. Raises ApiError."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ApiError(400, "the body must be a JSON object")
    asked = fields.get("model")
    if asked not in (None, model):
        message = f"The model `{str(asked)[:MAX_NAME_CHARS]}` does not exist."
        raise ApiError(404, message, "NotFoundError", "model")
    return fields


def prompt_of(fields: Mapping[str, Any], api: Api) -> Prompt:
    """The prompt or the messages. Raises ApiError."""
    if api == "chat":
        return tokens.from_messages([_message(m) for m in _messages(fields)])
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, str) and (found := tokens.from_text(prompt)).tokens:
        return found
    if not isinstance(prompt, list) or not prompt:
        raise ApiError(400, "prompt must be a text or a list of token ids", param="prompt")
    return tokens.from_ids(_checked_ids(prompt))


def _checked_ids(ids: list[Any]) -> list[int]:
    if not set(map(type, ids)) <= {int}:
        raise ApiError(400, "one prompt of integer token ids is emulated", param="prompt")
    if min(ids) < 0 or max(ids) >= VOCAB_SIZE:
        raise ApiError(400, f"token ids must lie in 0..{VOCAB_SIZE - 1}", param="prompt")
    return ids


def _messages(fields: Mapping[str, Any]) -> list[Any]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "messages must be a list of messages", param="messages")
    return messages


def _message(message: object) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(role := message.get("role"), str):
        raise ApiError(400, "a message is an object with a role", param="messages")
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        raise ApiError(400, "the content of a message must be text", param="messages")
    return role[:MAX_NAME_CHARS], content


def _max_tokens(fields: Mapping[str, Any], api: Api, prompt_tokens: int, longest: int) -> int:
    """As in vLLM: a completion defaults to 16 tokens, a chat to all that is left; both are clipped."""
    room = longest - prompt_tokens
    if room < 1:
        message = (
            f"This model's maximum context length is {longest} tokens. However, your request has "
            f"{prompt_tokens} input tokens. Please reduce the length of the input."
        )
        raise ApiError(400, message, param="input_tokens")
    asked = _integer(fields, "max_tokens", 16 if api == "completions" else room, low=1)
    if api == "chat":
        asked = _integer(fields, "max_completion_tokens", asked, low=1)
    return min(asked, room)


def _output_tokens(fields: Mapping[str, Any], prompt: Prompt, max_tokens: int) -> int:
    """Left to itself the model stops after 16 to 527 tokens, always the same for the same prompt."""
    min_tokens = _integer(fields, "min_tokens", 0, low=0)
    if min_tokens > max_tokens:
        raise ApiError(400, "min_tokens must not exceed max_tokens", param="min_tokens")
    if fields.get("ignore_eos"):
        return max_tokens
    return min(max_tokens, max(min_tokens, 16 + prompt.digest % 512))


def _integer(fields: Mapping[str, Any], name: str, default: int, low: int | None = None) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if type(value) is not int or (low is not None and value < low):
        least = "" if low is None else f" of at least {low}"
        raise ApiError(400, f"{name} must be an integer{least}", param=name)
    return value


def _priority(fields: Mapping[str, Any], headers: Mapping[str, str]) -> int:
    if fields.get("priority") is not None:
        return _integer(fields, "priority", 0)
    return int(_header_number(headers, "X-Loadkit-Priority") or 0)


def _header_number(headers: Mapping[str, str], name: str) -> float | None:
    text = headers.get(name)
    try:
        value = None if text is None else float(text)
    except ValueError:
        value = float("nan")
    if value is not None and not abs(value) < 1e9:
        raise ApiError(400, f"header {name} must be a number", param=name)
    return value


def _name(headers: Mapping[str, str], header: str) -> str | None:
    return bounded(unquote(headers.get(header, ""))) or None


def bounded(text: str) -> str:
    """A client's text as a name that can be kept: short, and valid Unicode."""
    return text[:MAX_NAME_CHARS].encode("utf-8", "replace").decode()
