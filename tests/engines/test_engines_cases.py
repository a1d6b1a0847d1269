"""Behaviour of real servers that broke other people's load tests, one test per case.

Each stream is written down as the server sends it, one event per tenth of a second.
"""

import json

import pytest

from loadkit.engines import Outcome, Reply, StreamReader, Usage, outcome
from loadkit.engines.reply import Api

DONE = "[DONE]"
FINISH = {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 3}}


def text(value: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": value, "finish_reason": None}]}


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def stream(*events: object, api: Api = "completions") -> Reply:
    """Strings starting with a colon are comment lines; other strings are data as they stand."""
    reader = StreamReader(api)
    for number, event in enumerate(events, start=1):
        line = event if isinstance(event, str) else json.dumps(event)
        wire = line if line.startswith(":") else f"data: {line}"
        reader.feed(number / 10, f"{wire}\n\n".encode())
    return reader.finish()


def judged(reply: Reply, planned: int | None = None) -> Outcome:
    return outcome(200, reply, {}, planned)


def test_the_closing_usage_chunk_gives_counts_and_no_token() -> None:  # A1
    reply = stream(text("a"), text("b"), FINISH, USAGE, DONE)
    assert reply.usage == Usage(4, 3, None)
    assert reply.content_stamps_s == (0.1, 0.2)
    assert judged(reply) == Outcome("ok")


def test_comment_lines_during_a_long_prefill_do_not_start_the_clock() -> None:  # A2
    reply = stream(":", ": keep-alive", text("a"), FINISH, DONE)
    assert (reply.first_token_s, reply.malformed_events) == (0.3, 0)


@pytest.mark.parametrize("junk", ["", "ping", ": OPENROUTER PROCESSING", "{", "null", '"x"', "7"])
def test_data_that_is_no_json_object_is_counted_and_skipped(junk: str) -> None:  # A4
    reader = StreamReader("completions")
    reader.feed(0.1, f"event: ping\ndata: {junk}\n\n".encode())
    reader.feed(0.2, f"data: {json.dumps(text('a'))}\n\ndata: [DONE]\n\n".encode())
    reply = reader.finish()
    assert (reply.malformed_events, reply.first_token_s) == (1, 0.2)
    assert judged(reply).status == "ok"


@pytest.mark.parametrize(
    "first",
    [
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {"role": "assistant", "content": "", "reasoning_content": None, "tool_calls": []},
        {},
    ],
)
def test_a_role_only_delta_is_not_the_first_token(first: dict[str, object]) -> None:  # A5
    reply = stream(delta(**first), delta(content="a"), DONE, api="chat")
    assert reply.content_stamps_s == (0.2,)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_counts_for_the_first_token_and_not_for_the_first_answer(name: str) -> None:  # A6
    reply = stream(
        delta(role="assistant", content=""),
        delta(**{name: "hm"}),
        delta(**{name: "so"}),
        delta(content="42"),
        delta(content="."),
        api="chat",
    )
    assert (reply.first_token_s, reply.first_answer_s, reply.last_token_s) == (0.2, 0.4, 0.5)


@pytest.mark.parametrize(
    "answer",
    [
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"function_call": {"name": "f"}},
        {"refusal": "no"},
    ],
)
def test_every_generated_channel_counts(answer: dict[str, object]) -> None:  # A6
    reply = stream(delta(role="assistant"), delta(**answer), api="chat")
    assert (reply.first_token_s, reply.first_answer_s) == (0.2, 0.2)


def test_tokens_are_the_servers_count_and_never_the_chunks() -> None:  # A8
    usage = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 8}}
    reply = stream(text("four tokens at once"), text("and four more"), FINISH, usage, DONE)
    assert len(reply.content_stamps_s) == 2
    assert reply.output_tokens == 8


def test_without_usage_the_count_is_unknown() -> None:  # A9
    reply = stream(text("a"), text("b"), FINISH, DONE)
    assert reply.usage is None
    assert reply.output_tokens is None


def test_a_character_cut_anywhere_is_whole_again() -> None:  # A10
    wire = f"data: {json.dumps(text('日本'), ensure_ascii=False)}\n\n".encode()
    for cut in range(len(wire)):
        reader = StreamReader("completions")
        reader.feed(0.1, wire[:cut])
        reader.feed(0.2, wire[cut:])
        reply = reader.finish()
        assert (reply.content_stamps_s, reply.malformed_events) == ((0.2,), 0)


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n"])
def test_any_line_end_separates_events(blank: str) -> None:  # A12
    reader = StreamReader("completions")
    reader.feed(0.1, "".join(f"data: {json.dumps(text(t))}{blank}" for t in "abc").encode())
    assert len(reader.finish().content_stamps_s) == 3


def test_an_error_after_some_tokens_is_an_error_in_spite_of_200_and_done() -> None:  # A14
    broken = {"error": {"message": "engine died", "type": "InternalServerError", "code": 500}}
    reply = stream(text("a"), broken, DONE)
    assert judged(reply) == Outcome("stream_error", "500: engine died")
    assert reply.content_stamps_s == (0.1,)


def test_a_stream_that_just_stops_is_truncated() -> None:  # A16
    reply = stream(text("a"), text("b"))
    got = judged(reply, 1024)
    assert got.status == "truncated"
    assert "2 content chunks" in str(got.error)


def test_running_usage_does_not_hide_that_a_stream_just_stopped() -> None:  # A16
    running = {**text("a"), "usage": {"prompt_tokens": 4, "completion_tokens": 1}}
    reply = stream(running)
    assert reply.usage == Usage(4, 1, None)
    assert judged(reply).status == "truncated"


def test_done_with_too_few_tokens_and_no_finish_reason_is_truncated() -> None:  # A16
    reply = stream(text("a"), USAGE, DONE)
    assert judged(reply, 1024) == Outcome("truncated", "ended at 3 of 1024 tokens")
    assert judged(reply, 3).status == "ok"


def test_fewer_tokens_with_a_finish_reason_is_an_answer() -> None:
    stopped = {"choices": [{"text": "", "finish_reason": "stop"}]}
    assert judged(stream(text("a"), stopped, USAGE, DONE), 1024) == Outcome("ok")


def test_done_and_nothing_else_is_truncated() -> None:
    assert judged(stream(DONE)).status == "truncated"


def test_a_burst_keeps_one_stamp_per_chunk_so_that_it_can_be_seen() -> None:  # A18
    reader = StreamReader("completions")
    reader.feed(9.0, b"".join(f"data: {json.dumps(text('a'))}\n\n".encode() for _ in range(50)))
    assert reader.finish().content_stamps_s == (9.0,) * 50


def test_a_failed_request_has_no_instants_instead_of_zeros() -> None:  # A19
    refused = {"error": {"message": "The request queue is full.", "code": 503}}
    reply = stream(refused, DONE)
    assert (reply.first_token_s, reply.first_answer_s, reply.last_token_s) == (None, None, None)
    assert reply.usage is None
