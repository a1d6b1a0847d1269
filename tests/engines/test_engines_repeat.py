"""Events recognised as repeats count for what they would count for if they were parsed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.engines import Reply, StreamReader
from loadkit.engines.repeat import Repeat
from loadkit.engines.reply import Api

TEXTS = st.sampled_from(
    [" tok", "a", "", '"', "\\", "é", "\n", "\x7f", 'text":"x', " }]"]
) | st.text(max_size=6)
USAGES = st.sampled_from(
    [None, {"prompt_tokens": 3, "completion_tokens": 1}, {"completion_tokens": 2}]
)
REASONS = st.sampled_from([None, None, None, "length"])


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """One event of either API, written as any server might write it."""
    text = draw(TEXTS)
    where = draw(st.sampled_from(["text", "content", "reasoning_content"]))
    said: dict[str, Any] = {"text": text} if where == "text" else {"delta": {where: text}}
    chunk: dict[str, Any] = {
        "id": draw(st.sampled_from(["a", "b"])),
        "choices": [{"index": 0, **said, "finish_reason": draw(REASONS)}],
    }
    if draw(st.booleans()):
        chunk["usage"] = draw(USAGES)
    if draw(st.sampled_from([False] * 5 + [True])):
        chunk["error"] = {"code": 503, "message": "gone"}
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    data = json.dumps(chunk, ensure_ascii=draw(st.booleans()), separators=separators)
    return f"data: {data}\n\n".encode("utf-8", "replace")


def read(api: Api, stream: list[bytes]) -> Reply:
    reader = StreamReader(api)
    for index, event in enumerate(stream):
        reader.feed(float(index), event)
    return reader.finish()


@given(st.sampled_from(["completions", "chat"]), st.lists(events(), max_size=12))
def test_a_stream_reads_the_same_with_and_without_repeats(api: Api, stream: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Repeat, "of", lambda *_: None)
        parsed = read(api, stream)

    assert read(api, stream) == parsed


def event(text: str, **fields: object) -> bytes:
    chunk = {"id": "a", "choices": [{"text": text, "finish_reason": None}], **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def test_another_text_alone_is_a_repeat() -> None:
    repeat = Repeat.of(event(" tok")[6:-2], [{"text": " tok"}])

    assert repeat is not None
    assert repeat.fits(event(" other words"))


@pytest.mark.parametrize(
    "other",
    [
        event(""),
        event('"'),
        event("\\"),
        event("é"),
        event(" tok", usage={"completion_tokens": 2}),
        event(" tok")[:-1],
        event(" tok") + event(" tok"),
        event(" tok").replace(b"null", b'"length"'),
    ],
)
def test_anything_else_is_not(other: bytes) -> None:
    repeat = Repeat.of(event(" tok")[6:-2], [{"text": " tok"}])

    assert repeat is not None
    assert not repeat.fits(other)


def test_a_text_that_stands_in_two_places_makes_no_repeat() -> None:
    data = b'{"choices":[{"text":"x"}],"echo":{"text":"x"}}'

    assert Repeat.of(data, [{"text": "x"}]) is None
