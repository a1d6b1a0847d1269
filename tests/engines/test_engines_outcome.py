"""What became of a request: refusals, give-ups and failures of every engine, in every disguise."""

import json

import pytest

from loadkit.engines import Outcome, Reply, StreamReader, outcome, read_body, retry_after_s


def streamed(*events: object) -> Reply:
    reader = StreamReader("completions")
    for event in events:
        payload = event if isinstance(event, str) else json.dumps(event)
        reader.feed(1.0, f"data: {payload}\n\n".encode())
    return reader.finish()


def body(document: object) -> Reply:
    return read_body("completions", json.dumps(document).encode())


TOKEN = {"choices": [{"index": 0, "text": "a", "finish_reason": None}]}
ZERO_USAGE = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
SGLANG_FULL = {
    "object": "error",
    "message": "The request queue is full.",
    "type": "SERVICE_UNAVAILABLE",
    "param": None,
    "code": 503,
}


@pytest.mark.parametrize(
    ("http_status", "document", "status", "error"),
    [
        # vLLM's admission bound, nested
        (503, {"error": {"message": "busy", "code": 503}}, "rejected", "HTTP 503: busy"),
        # SGLang, flat
        (503, SGLANG_FULL, "rejected", "HTTP 503: The request queue is full."),
        # text-generation-inference, a bare string
        (
            429,
            {"error": "Model is overloaded", "error_type": "overloaded"},
            "rejected",
            "HTTP 429: Model is overloaded",
        ),
        (429, {"detail": "slow down"}, "rejected", "HTTP 429: slow down"),
        (504, {"error": {"message": "deadline exceeded", "code": 504}}, "expired", None),
        (408, {"error": {"message": "request expired in the queue"}}, "expired", None),
        (504, {"error": {"message": "upstream timed out"}}, "error", None),
        (500, {"error": {"message": "deadline exceeded"}}, "error", None),
        (400, {"error": {"message": "too long", "code": 400}}, "error", "HTTP 400: too long"),
        (404, {"detail": "Not Found"}, "error", "HTTP 404: Not Found"),
        (422, {"detail": [{"loc": ["body"], "msg": "unexpected"}]}, "error", None),
        (301, {}, "error", "HTTP 301: no reason given"),
    ],
)
def test_http_errors(http_status: int, document: object, status: str, error: str | None) -> None:
    got = outcome(http_status, body(document), {})
    assert got.status == status
    if error:
        assert got.error == error


@pytest.mark.parametrize(
    ("events", "status"),
    [
        # SGLang refuses a streamed request with status 200, zeros and [DONE].
        ((({"error": SGLANG_FULL}), ZERO_USAGE, "[DONE]"), "rejected"),
        # text-generation-inference hard-codes 422 for everything
        (({"error": {"message": "Model is overloaded", "http_status_code": 422}},), "rejected"),
        (({"error": "Model is overloaded", "error_type": "overloaded"},), "rejected"),
        (({"error": {"message": "bad input", "http_status_code": 422}},), "error"),
        # transformers serve: a bare string
        (({"error": "CUDA out of memory"},), "error"),
        ((TOKEN, {"error": "CUDA out of memory"}), "stream_error"),
        # once tokens have come, a 503 is a broken promise
        ((TOKEN, {"error": {"message": "evicted", "code": 503}}), "stream_error"),
        ((TOKEN, {"error": {"message": "deadline passed", "code": 504}}), "expired"),
        (({"error": {"message": "Request waiting timeout reached.", "code": 503}},), "expired"),
        (({"choices": [{"text": "", "finish_reason": "abort"}]},), "rejected"),
        ((TOKEN, {"choices": [{"text": "", "finish_reason": {"type": "abort"}}]}), "stream_error"),
        ((TOKEN, {"choices": [{"text": "", "finish_reason": "error"}]}, "[DONE]"), "stream_error"),
        (({"error": None, **TOKEN}, "[DONE]"), "ok"),
    ],
)
def test_failures_inside_a_200_stream(events: tuple[object, ...], status: str) -> None:
    assert outcome(200, streamed(*events), {}).status == status


def test_a_200_that_is_no_json_is_an_error_with_its_beginning() -> None:
    reply = read_body("chat", b"<html>\r\n<b>Bad gateway\x1b[31m</b>")
    got = outcome(200, reply, {})
    assert got == Outcome("error", "not a JSON object: <html> <b>Bad gateway\\x1b[31m</b>", None)
    assert reply.malformed_events == 1


def test_server_text_is_bounded() -> None:
    got = outcome(500, body({"error": {"message": "x" * 100_000}}), {})
    assert len(str(got.error)) < 520


def test_an_answer_that_was_not_streamed_is_ok_and_has_no_instants() -> None:
    document = {
        "id": "cmpl-7",
        "choices": [{"index": 0, "text": "hello", "finish_reason": "length"}],
        "usage": {
            "prompt_tokens": 4,
            "completion_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
        "metrics": {"queue_time_ms": 250.0, "time_to_first_token_ms": 40.0},
    }
    reply = body(document)
    assert outcome(200, reply, {}, 8) == Outcome("ok")
    assert (reply.first_token_s, reply.content_stamps_s, reply.has_content) == (None, (), True)
    assert reply.usage == (4, 8, 2)
    assert (reply.timings.queue_wait_s, reply.timings.prefill_s) == (0.25, 0.04)
    assert reply.response_id == "cmpl-7"


def test_a_chat_message_that_was_not_streamed_has_content() -> None:
    message = {"role": "assistant", "content": "hi"}
    reply = read_body(
        "chat", json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    )
    assert reply.has_content
    assert outcome(200, reply, {}).status == "ok"


def test_an_empty_body_is_no_answer() -> None:
    assert outcome(200, read_body("chat", b""), {}).status != "ok"
    assert outcome(200, body({"status": "fine"}), {}).status != "ok"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        (
            {
                "retry-after": "Mon, 30 Nov 2026 19:19:07 GMT",
                "date": "Mon, 30 Nov 2026 19:18:57 GMT",
            },
            10.0,
        ),
        (
            {
                "retry-after": "Mon, 30 Nov 2026 19:00:00 GMT",
                "date": "Mon, 30 Nov 2026 19:18:57 GMT",
            },
            0.0,
        ),
        ({"retry-after": "Mon, 30 Nov 2026 19:19:07 GMT"}, None),
        ({"retry-after": "soon", "date": "Mon, 30 Nov 2026 19:18:57 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "999999999"}, 86_400.0),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_is_a_number_or_a_date_by_the_servers_own_clock(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers) == seconds


def test_retry_after_comes_with_the_refusal() -> None:
    got = outcome(429, body({"error": {"message": "slow down"}}), {"retry-after": "2"})
    assert got == Outcome("rejected", "HTTP 429: slow down", 2.0)
