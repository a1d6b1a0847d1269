"""What one answer of a server amounts to, and how each piece of its JSON is read.

Server text is untrusted: every value is checked for its type and every string is bounded. Unknown
stays None. Nothing here knows about HTTP or server-sent events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Api = Literal["completions", "chat"]
Channel = Literal["answer", "reasoning"]

MAX_TEXT_CHARS = 500
_MAX_TOKENS = 2**31 - 1

_OTHER_ANSWER_KEYS = ("tool_calls", "refusal", "function_call")
_REASONING_KEYS = ("reasoning_content", "reasoning")
_CODE_KEYS = ("code", "http_status_code", "status_code", "status")
_NAMED_CODES = {
    "overloaded": 429,  # text-generation-inference: its own 429 when it does not stream
    "rate_limit_exceeded": 429,
    "SERVICE_UNAVAILABLE": 503,
}


class Usage(NamedTuple):
    """The server's own token counts."""

    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None


class ReplyError(NamedTuple):
    code: int | None
    """An HTTP status, also where it came inside a 200 stream."""
    message: str
    """One line of at most 500 characters."""


class Timings(NamedTuple):
    """What the engine tells about this one request."""

    queue_wait_s: float | None = None
    """Arrival at the engine to first scheduled."""
    prefill_s: float | None = None
    """First scheduled to first token; llama.cpp: prompt evaluation alone."""
    preemptions: int | None = None
    recomputed_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Facts of one answer, stream or not. Instants are the stamps that the reader was given."""

    first_token_s: float | None
    """First chunk with generated content on any channel."""
    first_answer_s: float | None
    """First chunk with content that is not reasoning."""
    last_token_s: float | None
    content_stamps_s: tuple[float, ...]
    """One per content chunk; a chunk may hold several tokens."""
    has_content: bool
    """True also for an answer that was not streamed and has no stamps."""
    usage: Usage | None
    finish_reason: str | None
    done: bool
    """`[DONE]` was seen or, without streaming, the JSON was complete."""
    ended: bool
    """The server said in any way that this is all: `[DONE]`, finish reason, or closing usage chunk."""
    error: ReplyError | None
    malformed_events: int
    response_id: str | None
    timings: Timings

    @property
    def output_tokens(self) -> int | None:
        return self.usage.output_tokens if self.usage else None


def generated(choices: list[Any]) -> tuple[Channel | None, str | None]:
    """The channel a chunk's choices generated on (an answer before reasoning), and a finish reason.

    No channel: role-only or empty choices.
    """
    channel: Channel | None = None
    reason: str | None = None
    for choice in choices:
        if isinstance(choice, dict):
            if channel != "answer":
                channel = _channel(choice) or channel
            if reason is None and choice.get("finish_reason") is not None:
                reason = _finish_reason(choice["finish_reason"])
    return channel, reason


def response_id(chunk: Mapping[str, Any]) -> str | None:
    found = chunk.get("id")
    return one_line(found) if isinstance(found, str) else None


def usage(value: object) -> Usage | None:
    """An OpenAI `usage` object; None when it holds no token count."""
    if not isinstance(value, dict):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    found = Usage(
        _count(value.get("prompt_tokens")), _count(value.get("completion_tokens")), _count(cached)
    )
    # SGLang closes the stream of a refused request with zeros; no real prompt is empty.
    return found if found.prompt_tokens or found.output_tokens else None


def error(chunk: Mapping[str, Any]) -> ReplyError | None:
    """The error in a JSON object of any engine: nested, a bare string, flat, or FastAPI's detail."""
    found = chunk.get("error")
    if isinstance(found, dict):
        return _reply_error(found, found.get("message"))
    if found not in (None, False, ""):
        return _reply_error({**chunk, "type": chunk.get("error_type")}, found)
    if chunk.get("object") == "error":
        return _reply_error(chunk, chunk.get("message"))
    if "detail" in chunk and "choices" not in chunk:
        return _reply_error(chunk, chunk["detail"])
    return None


def timings(chunk: Mapping[str, Any]) -> Timings | None:
    """Engine timings of one request, from whichever object this engine puts them into."""
    if isinstance(chunk.get("metrics"), dict):
        return _vllm_timings(chunk["metrics"])
    if isinstance(chunk.get("meta_info"), dict):
        return _sglang_timings(chunk["meta_info"])
    if isinstance(chunk.get("timings"), dict):
        return Timings(prefill_s=_seconds(chunk["timings"].get("prompt_ms"), per_s=1e3))
    return None


def one_line(text: object) -> str:
    """Server text made safe to print and to keep: one line, printable, bounded."""
    if isinstance(text, str) and len(text) <= MAX_TEXT_CHARS and text.isprintable():
        return " ".join(text.split()) if " " in text else text
    words = " ".join(str(text)[: 4 * MAX_TEXT_CHARS].split())
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words)
    if len(printable) <= MAX_TEXT_CHARS:
        return printable
    return printable[: MAX_TEXT_CHARS - 1] + "…"


def _channel(choice: dict[str, Any]) -> Channel | None:
    if choice.get("text") or choice.get("token_ids"):
        return "answer"
    part = choice.get("delta") or choice.get("message")
    if not isinstance(part, dict):
        return None
    if part.get("content") or any(map(part.get, _OTHER_ANSWER_KEYS)):
        return "answer"
    return "reasoning" if any(map(part.get, _REASONING_KEYS)) else None


def _finish_reason(value: object) -> str | None:
    if isinstance(value, dict):  # SGLang's own routes: {"type": "abort", …}
        value = value.get("type")
    return one_line(value) if isinstance(value, str) else None


def _vllm_timings(metrics: dict[str, Any]) -> Timings:
    # Here vLLM's time_to_first_token_ms starts when the request is scheduled: it is the prefill.
    return Timings(
        _seconds(metrics.get("queue_time_ms"), per_s=1e3),
        _seconds(metrics.get("time_to_first_token_ms"), per_s=1e3),
        _count(metrics.get("num_preemptions")),
        _count(metrics.get("recomputed_tokens")),
    )


def _sglang_timings(meta: dict[str, Any]) -> Timings:
    started, ended = meta.get("forward_entry_time"), meta.get("prefill_finished_time")
    prefill_s = None
    if isinstance(started, float) and isinstance(ended, float):
        prefill_s = _seconds(ended - started)
    return Timings(
        _seconds(meta.get("queue_time")),
        prefill_s,
        _count(meta.get("num_retractions")),
    )


def _reply_error(found: Mapping[str, Any], message: object) -> ReplyError:
    code = next((c for c in map(_code, map(found.get, _CODE_KEYS)) if c), None)
    return ReplyError(
        code or _code(found.get("type")), one_line(message or "an error without a message")
    )


def _code(value: object) -> int | None:
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) == 3 else _NAMED_CODES.get(value)
    return value if isinstance(value, int) and 100 <= value <= 599 else None


def _count(value: object) -> int | None:
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_TOKENS
    return value if ok else None  # type: ignore[return-value]


def _seconds(value: object, per_s: float = 1.0) -> float | None:
    # JSON has no NaN, and orjson refuses it; an infinity can still come from a huge exponent.
    return value / per_s if _is_number(value) and 0 <= value < 1e9 else None  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
