"""Answer bodies as bytes. What is the same in every chunk of a stream is encoded once."""

from typing import Any, NamedTuple

import orjson

from loadkit.core import Sequence
from loadkit.emulator.api import Ask
from loadkit.emulator.tokens import WORDS

DONE = b"data: [DONE]\n\n"

_OBJECTS = {
    ("completions", True): "text_completion",
    ("completions", False): "text_completion",
    ("chat", True): "chat.completion.chunk",
    ("chat", False): "chat.completion",
}
_ID_PREFIXES = {"completions": "cmpl-", "chat": "chatcmpl-"}
_OPENINGS = {
    "completions": b',"choices":[{"index":0,"text":"',
    "chat": b',"choices":[{"index":0,"delta":{"content":"',
}
_CLOSINGS = {
    "completions": b'","logprobs":null,"finish_reason":%b,"stop_reason":null}]',
    "chat": b'"},"logprobs":null,"finish_reason":%b}]',
}
_ROLE = (
    b',"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
)


class ChunkTemplate(NamedTuple):
    """The parts of a stream's chunks: `head + word + tail`, or `last_tail` for the last."""

    opening: bytes
    """What comes before the first token: the role of a chat, else nothing."""
    head: bytes
    tail: bytes
    last_tail: bytes


def chunk_template(ask: Ask, envelope: bytes) -> ChunkTemplate:
    closing = _CLOSINGS[ask.api]
    end = b"" if ask.continuous_usage else b"}\n\n"
    return ChunkTemplate(
        opening=envelope + _ROLE if ask.api == "chat" else b"",
        head=envelope + _OPENINGS[ask.api],
        tail=closing % b"null" + end,
        last_tail=closing % orjson.dumps(ask.finish_reason) + end,
    )


def envelope(ask: Ask, request_id: str, model: str, created_unix_s: int) -> dict[str, Any]:
    """The keys that every body of an answer begins with."""
    return {
        "id": _ID_PREFIXES[ask.api] + request_id,
        "object": _OBJECTS[ask.api, ask.stream],
        "created": created_unix_s,
        "model": model,
    }


def sse(body: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"


def sse_envelope(keys: dict[str, Any]) -> bytes:
    """The beginning of an event, open for more keys."""
    return b"data: " + orjson.dumps(keys)[:-1]


def running_usage(prompt_tokens: int, output_tokens: int) -> bytes:
    """The end of a chunk under `continuous_usage_stats`."""
    usage = _usage(prompt_tokens, output_tokens)
    return b',"usage":' + orjson.dumps(usage) + b"}\n\n"


def usage_event(keys: dict[str, Any], seq: Sequence) -> bytes:
    """The closing chunk under `include_usage`."""
    return sse({**keys, "choices": [], **_account(seq)})


def whole_body(ask: Ask, keys: dict[str, Any], seq: Sequence) -> bytes:
    """The answer of a request that does not stream."""
    text = b"".join(WORDS[n % len(WORDS)] for n in range(seq.generated_tokens)).decode()
    said: dict[str, Any] = {"text": text}
    if ask.api == "chat":
        said = {"message": {"role": "assistant", "content": text}}
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": ask.finish_reason}
    return orjson.dumps({**keys, "choices": [choice], **_account(seq)})


def _account(seq: Sequence) -> dict[str, Any]:
    usage: dict[str, Any] = _usage(seq.prompt_tokens, seq.generated_tokens)
    usage["prompt_tokens_details"] = {"cached_tokens": seq.cached_tokens}
    return {"usage": usage, "metrics": request_metrics(seq)}


def _usage(prompt_tokens: int, output_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": prompt_tokens + output_tokens,
    }


def request_metrics(seq: Sequence) -> dict[str, float | int | None]:
    """vLLM's --enable-per-request-metrics, and after those what it does not tell.

    `time_to_first_token_ms` counts from the first start, without the queue, as there.
    """
    assert seq.first_token_s is not None
    assert seq.last_token_s is not None
    assert seq.first_scheduled_s is not None
    decode_s = seq.last_token_s - seq.first_token_s
    busy_s = seq.last_token_s - seq.first_scheduled_s
    return {
        "queue_time_ms": _ms(seq.queue_wait_s),
        "time_to_first_token_ms": _ms(seq.prefill_s),
        "generation_time_ms": _ms(decode_s),
        "mean_itl_ms": _ms(decode_s / (n - 1)) if (n := seq.generated_tokens) > 1 else None,
        "tokens_per_second": seq.generated_tokens / busy_s if busy_s > 0 else None,
        "num_preemptions": seq.preemptions,
        "recomputed_tokens": seq.recomputed_tokens,
        "time_preempted_ms": _ms(seq.time_preempted_s),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 6)
