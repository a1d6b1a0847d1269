"""Framing: any cutting of the bytes gives the same Reply, and instants follow the completing bytes.

The truth comes from construction: every piece of a generated stream says what it should count for,
and where its completing byte lies. No parser is needed to know it.
"""

import json
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.engines import Reply, StreamReader, Usage, stream

LINE_ENDS = (  # (end of the data line, blank line); LF after CR would be one line end, not two
    (b"\n", b"\n"),
    (b"\r\n", b"\r\n"),
    (b"\r", b"\r"),
    (b"\n", b"\r\n"),
    (b"\r\n", b"\n"),
    (b"\n", b"\r"),
    (b"\r", b"\r\n"),
)


@dataclass(frozen=True)
class Piece:
    """One event on the wire and what it should count for."""

    lines: tuple[bytes, ...]
    content: bool = False
    malformed: bool = False
    ends: tuple[bytes, bytes] = LINE_ENDS[0]

    @property
    def wire(self) -> bytes:
        return b"".join(line + self.ends[0] for line in self.lines) + self.ends[1]

    @property
    def completing_byte(self) -> int:
        """The blank line is there with its first byte: a CR already ends a line."""
        return len(self.wire) - len(self.ends[1])


def text_chunk(text: str, **choice: object) -> bytes:
    chunk = {"id": "cmpl-1", "choices": [{"index": 0, "text": text, **choice}]}
    return json.dumps(chunk, ensure_ascii=False).encode()


def choices(text: str) -> bytes:
    return json.dumps([{"text": text}], ensure_ascii=False).encode()


def data(payload: bytes) -> tuple[bytes, ...]:
    return (b"data: " + payload,)


SHAPES = st.sampled_from(
    [
        lambda text: Piece(data(text_chunk(text)), content=True),
        lambda text: Piece((b"data:" + text_chunk(text),), content=True),
        lambda text: Piece((b"event: x", b"id: 7", *data(text_chunk(text))), content=True),
        lambda text: Piece((b": keep-alive", *data(text_chunk(text))), content=True),
        # One JSON document over two data lines: joined by a line feed, which JSON allows between tokens.
        lambda text: Piece((b'data: {"choices":', b"data: " + choices(text) + b"}"), content=True),
        lambda _: Piece(data(text_chunk(""))),
        lambda _: Piece((b": keep-alive",)),
        lambda _: Piece((b"event: ping",)),
        lambda _: Piece((b"retry: 100", b"nonsense", b"database: 5")),
        lambda _: Piece((b"data:",), malformed=True),
        lambda _: Piece((b"data: ping",), malformed=True),
        lambda _: Piece((b"data: : OPENROUTER PROCESSING",), malformed=True),
        lambda _: Piece((b"data: [1, 2]",), malformed=True),
        lambda text: Piece(data(text_chunk(text)[:-2]), malformed=True),
        lambda text: Piece((b"data: \xff" + text_chunk(text),), malformed=True),
        lambda _: Piece(()),
    ]
)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    shapes = draw(st.lists(st.tuples(SHAPES, TEXTS, st.sampled_from(LINE_ENDS)), max_size=8))
    made = [replace(shape(text), ends=ends) for shape, text, ends in shapes]
    # A lone blank line that is an LF behind a CR would belong to the line end before it.
    return [piece for piece in made if piece.lines or piece.ends[1] != b"\n"]


@settings(max_examples=300)
@given(st.data(), pieces(), st.booleans())
def test_any_cutting_gives_the_same_facts_and_each_instant_is_that_of_the_completing_bytes(
    draw: st.DataObject, made: list[Piece], bom: bool
) -> None:
    wire = (b"\xef\xbb\xbf" if bom else b"") + b"".join(piece.wire for piece in made)
    some = st.lists(st.integers(0, len(wire)), max_size=20).map(sorted)
    cuts = draw.draw(some | st.just(list(range(len(wire)))))  # or every byte by itself
    edges = [0, *cuts, len(wire)]

    reader = StreamReader("completions")
    for stamp, (start, end) in enumerate(pairwise(edges)):
        reader.feed(float(stamp), wire[start:end])
    reply = reader.finish()

    stamps, at = [], 3 if bom else 0
    for piece in made:
        if piece.content:
            byte = at + piece.completing_byte
            stamps.append(float(sum(edge <= byte for edge in edges[1:])))
        at += len(piece.wire)
    assert reply.content_stamps_s == tuple(stamps)
    assert reply.malformed_events == sum(piece.malformed for piece in made)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_arbitrary_bytes_never_raise_and_cutting_them_changes_nothing(
    wire: bytes, cuts: list[int]
) -> None:
    edges = [0, *sorted(cuts), len(wire)]
    whole, cut = StreamReader("chat"), StreamReader("chat")
    whole.feed(1.0, wire)
    for start, end in pairwise(edges):
        cut.feed(1.0, wire[start:end])
    assert whole.finish() == cut.finish()


SCRAPS = st.sampled_from(
    [
        *(b"data", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"event: x"),
        *(b"data: ", b"{}", b"[DONE]", b'{"choices":', b'[{"text":"a"}]}'),
        b'data: {"choices":[{"text":"a"}]}\n',
    ]
)


def events_by_the_letter(stamped: list[tuple[float, int]]) -> list[tuple[float, bytes]]:
    """The data of every event, byte by byte as the standard describes a stream, with its instant."""
    events, data, line, last = [], None, b"", 0
    raw = stamped
    if bytes(byte for _, byte in raw[:3]) == b"\xef\xbb\xbf":
        raw = raw[3:]
    for stamp, byte in [*raw, (raw[-1][0], -1), (raw[-1][0], -1)] if raw else []:
        if byte == 10 and last == 13:
            last = byte
            continue
        last = byte
        if byte not in (10, 13, -1):  # -1 ends the last line and the last event
            line += bytes([byte])
        elif line:
            name, _, value = line.partition(b":")
            if name == b"data":
                value = value[1:] if value[:1] == b" " else value
                data = value if data is None else data + b"\n" + value
            line = b""
        elif data is not None:
            events.append((stamp, data))
            data = None
    return events


@settings(max_examples=500)
@given(st.lists(st.lists(SCRAPS, max_size=4).map(b"".join), max_size=12))
def test_scraps_of_streams_are_read_by_the_letter_of_the_standard(parts: list[bytes]) -> None:
    stamped = [(float(n), byte) for n, part in enumerate(parts, start=1) for byte in part]
    content, done, malformed = [], False, 0
    for stamp, data_ in events_by_the_letter(stamped):
        try:
            document = json.loads(data_.decode())
        except ValueError:
            done |= data_.strip() == b"[DONE]"
            malformed += data_.strip() != b"[DONE]"
            continue
        malformed += not isinstance(document, dict)
        if isinstance(document, dict) and document.get("choices"):
            content.append(stamp)
    reply = read(*parts)
    assert reply.content_stamps_s == tuple(content)
    assert (reply.done, reply.malformed_events) == (done, malformed)


def read(*parts: bytes, api: str = "completions") -> Reply:
    reader = StreamReader(api)  # type: ignore[arg-type]
    for stamp, part in enumerate(parts, start=1):
        reader.feed(float(stamp), part)
    return reader.finish()


def test_a_last_event_without_its_blank_line_counts_at_the_last_bytes() -> None:
    reply = read(b"data: " + text_chunk("a") + b"\n\n", b"data: " + text_chunk("b"))
    assert reply.content_stamps_s == (1.0, 2.0)
    assert read(b"data: [DONE]").done


def test_a_character_cut_between_its_bytes_is_whole_again() -> None:
    wire = b"data: " + text_chunk("€") + b"\n\n"
    middle = wire.index("€".encode()) + 1
    reply = read(wire[:middle], wire[middle:])
    assert (reply.content_stamps_s, reply.malformed_events) == ((2.0,), 0)


@pytest.mark.parametrize("text", [b"\\ud83d", b"\xf0\x9f"])
def test_half_a_character_in_a_chunk_is_still_content(text: bytes) -> None:
    reply = read(b'data: {"choices":[{"text":"' + text + b'"}]}\n\n')
    assert (reply.content_stamps_s, reply.malformed_events) == ((1.0,), 0)


def test_a_pretty_printed_document_without_data_on_each_line_is_malformed() -> None:
    """Only lines that begin with `data` belong to an event, so this one is half a document."""
    assert read(b'data: {"choices":\n[{"text": "a"}]}\n\n').malformed_events == 1


@pytest.mark.parametrize("step", [1 << 20, 7 << 20])
def test_an_endless_event_is_dropped_counted_and_the_stream_goes_on(step: int) -> None:
    reader = StreamReader("completions")
    huge = b"data: " + b"x" * (7 << 20)
    held = 0
    for at in range(0, len(huge), step):
        reader.feed(1.0, huge[at : at + step])
        held = max(held, len(reader._tail))
    assert held <= stream.MAX_EVENT_BYTES + 1
    reader.feed(2.0, b"\n")
    reader.feed(3.0, b"\ndata: " + text_chunk("a") + b"\n\n")
    reply = reader.finish()
    assert (reply.malformed_events, reply.content_stamps_s) == (1, (3.0,))


@pytest.mark.parametrize("over", [-1, 0, 1, 2])
def test_the_bound_of_an_event_does_not_depend_on_the_cutting(
    over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 200)
    event = b"data: " + text_chunk("a")
    event += b" " * (200 + over - len(event))
    malformed = {
        size: read(*(event[i : i + size] for i in range(0, len(event), size)), b"\n", b"\n")
        for size in (1, 7, 200, 500)
    }
    assert {reply.malformed_events for reply in malformed.values()} == {int(over > 0)}


def test_usage_in_every_chunk_tells_of_tokens_that_have_no_text() -> None:
    def chunk(text: str, tokens: int) -> bytes:
        usage = {"prompt_tokens": 4, "completion_tokens": tokens}
        choices = [{"index": 0, "text": text, "finish_reason": None}]
        return b"data: " + json.dumps({"choices": choices, "usage": usage}).encode() + b"\n\n"

    closing = b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}}\n\n'
    reply = read(chunk("", 1), chunk("", 2), chunk("", 2), chunk("€", 3), closing)
    assert reply.content_stamps_s == (1.0, 2.0, 4.0)
    assert reply.usage == Usage(4, 3, None)


def test_usage_on_the_last_chunk_alone_sums_up_and_is_no_token() -> None:
    last = {
        "choices": [{"text": "", "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 6},
    }
    reply = read(
        b"data: " + text_chunk("a") + b"\n\n", b"data: " + json.dumps(last).encode() + b"\n\n"
    )
    assert reply.content_stamps_s == (1.0,)
    assert reply.usage == Usage(3, 6, None)


def test_deeply_nested_json_is_malformed_and_not_a_crash() -> None:
    assert read(b"data: " + b"[" * 100_000 + b"\n\n").malformed_events == 1


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": {"text": "a"}},
        {"choices": "a"},
        {"choices": [None, "a", 5, []]},
        {"choices": [{"delta": "a"}]},
        {"choices": [], "usage": {"prompt_tokens": "4", "completion_tokens": True}},
        {"choices": [{"text": ""}], "usage": "none", "metrics": None, "timings": []},
        {"id": 5, "choices": [{"finish_reason": 7, "text": None}]},
    ],
)
def test_values_of_the_wrong_type_are_unknown(chunk: object) -> None:
    reply = read(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    assert (reply.content_stamps_s, reply.usage, reply.finish_reason) == ((), None, None)
    assert reply.response_id is None
