"""What the exact server says: OpenAI's wire format in bytes of the size that vLLM sends. Pure."""

import math
from typing import Any, NamedTuple

import orjson

MODEL = "exact"


class Pace(NamedTuple):
    ttft_s: float
    itl_s: float
    tokens: int
    """Tokens of a reply whose request does not say `max_tokens`."""
    grid_s: float
    """Instants are rounded up to a multiple of this, for all streams alike; 0 = not at all."""

    def on_grid_s(self, instant_s: float) -> float:
        return math.ceil(instant_s / self.grid_s) * self.grid_s if self.grid_s else instant_s


class Script(NamedTuple):
    """One answer: `count` writes, the first after `first_s`, then one every `gap_s`."""

    count: int
    first_s: float
    gap_s: float
    write_tokens: int
    piece: bytes
    last: bytes
    tail: bytes
    """Follows the last piece at once."""


class Ask(NamedTuple):
    """What a request asks for."""

    chat: bool
    stream: bool
    prompt_tokens: int
    tokens: int

    @classmethod
    def parse(cls, body: bytes, default_tokens: int, *, chat: bool) -> "Ask":
        """Raises ValueError, AttributeError, TypeError or LookupError on a body of another shape."""
        values = orjson.loads(body)
        tokens = values.get("max_completion_tokens") or values.get("max_tokens") or default_tokens
        return cls(chat, bool(values.get("stream")), count_prompt(values), max(1, int(tokens)))

    def usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.tokens,
            "completion_tokens": self.tokens,
        }


def count_prompt(values: dict[str, Any]) -> int:
    """Token ids count as they are, text by its words."""
    if "messages" in values:
        return sum(len(str(message["content"]).split()) for message in values["messages"])
    prompt = values["prompt"]
    if isinstance(prompt, str):
        return len(prompt.split())
    return len(prompt[0]) if prompt and isinstance(prompt[0], list) else len(prompt)


def stream_script(ask: Ask, pace: Pace, request_id: str) -> Script:
    """One SSE event a token, all of a stream alike, then usage and the end."""
    choice = _choice(ask)
    end = {**choice, "finish_reason": "length"}
    return Script(
        count=ask.tokens,
        first_s=pace.ttft_s,
        gap_s=pace.itl_s,
        write_tokens=1,
        piece=_http_chunk(_event(ask, request_id, [choice])),
        last=_http_chunk(_event(ask, request_id, [end])),
        tail=_http_chunk(_event(ask, request_id, [], ask.usage()))
        + _http_chunk(b"data: [DONE]\n\n")
        + b"0\r\n\r\n",
    )


def whole_script(ask: Ask, pace: Pace, request_id: str) -> Script:
    """The whole answer in one write, when the last token of the stream would have come."""
    text = " tok" * ask.tokens
    said: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
    values = {
        "id": request_id,
        "object": "chat.completion" if ask.chat else "text_completion",
        "model": MODEL,
        "choices": [
            {"index": 0, **(said if ask.chat else {"text": text}), "finish_reason": "length"}
        ],
        "usage": ask.usage(),
    }
    body = orjson.dumps(values)
    return Script(
        count=1,
        first_s=pace.ttft_s + (ask.tokens - 1) * pace.itl_s,
        gap_s=0.0,
        write_tokens=ask.tokens,
        piece=b"",
        last=http_head(200, "application/json", f"content-length: {len(body)}") + body,
        tail=b"",
    )


def http_head(status: int, content_type: str, framing: str) -> bytes:
    reason = {200: "OK", 400: "Bad Request", 404: "Not Found"}[status]
    head = f"HTTP/1.1 {status} {reason}\r\nserver: exact\r\ncontent-type: {content_type}\r\n"
    return f"{head}{framing}\r\n\r\n".encode()


SSE_HEAD = http_head(200, "text/event-stream; charset=utf-8", "transfer-encoding: chunked")


def _choice(ask: Ask) -> dict[str, Any]:
    text: dict[str, Any] = {"delta": {"content": " tok"}} if ask.chat else {"text": " tok"}
    return {"index": 0, **text, "logprobs": None, "finish_reason": None, "stop_reason": None}


def _event(
    ask: Ask, request_id: str, choices: list[Any], usage: dict[str, int] | None = None
) -> bytes:
    values = {
        "id": f"{'chatcmpl' if ask.chat else 'cmpl'}-{request_id:0>32}",
        "object": "chat.completion.chunk" if ask.chat else "text_completion",
        "created": 1_750_000_000,
        "model": MODEL,
        "choices": choices,
        "usage": usage,
    }
    return b"data: " + orjson.dumps(values) + b"\n\n"


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
