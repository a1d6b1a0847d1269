"""Server-sent events to a Reply, incrementally; and a body that was not streamed to the same Reply.

Give `StreamReader.feed` the bytes as the socket gave them, cut anywhere: any cutting gives the same
Reply. The instant of an event is the stamp of the bytes that completed it. Refuses nothing: what
cannot be read is counted in `malformed_events`, and an event is never buffered beyond its bound.
"""

import json
from typing import Any

import orjson

from loadkit.engines import reply as read
from loadkit.engines.repeat import Repeat
from loadkit.engines.reply import Api, Channel, Reply, ReplyError, Timings, Usage

MAX_EVENT_BYTES = 4 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_CR, _LF = b"\r\n"
_RARE_KEYS = frozenset({"error", "detail", "metrics", "timings", "meta_info"})


class StreamReader:
    """One per stream. `feed` in the order of arrival, then `finish` once."""

    def __init__(self, api: Api) -> None:
        self._facts = _Facts(api)
        self._tail = bytearray()
        self._stamp_s = 0.0
        self._after_cr = False
        self._at_start = True
        self._oversized = False

    def feed(self, stamp_s: float, data: bytes) -> None:
        """Bytes that arrived at `stamp_s`."""
        repeat = self._facts.repeat
        if repeat and not self._tail and not self._after_cr and repeat.fits(data):
            self._facts.stamps_s.append(stamp_s)
            return
        self._stamp_s = stamp_s if data else self._stamp_s
        if self._after_cr or _CR in data:
            data = self._with_lf(data)
        if self._tail:
            data = self._joined(data)
        line, _, rest = data.partition(b"\n")
        if rest == b"\n":  # nearly always: one event of one line, whole
            self._event(line)
            return
        *events, tail = data.split(b"\n\n")
        for event in events:
            self._event(event)
        if tail:
            self._hold(tail)

    @property
    def begun(self) -> bool:
        """Whether any byte came."""
        return not self._at_start or bool(self._tail)

    def finish(self) -> Reply:
        """The stream has ended; what is left counts as its last event."""
        if self._tail:
            event = bytes(self._tail)
            self._tail.clear()
            self._event(event)
        return self._facts.reply()

    def _with_lf(self, data: bytes) -> bytes:
        """Every line end as LF; a CRLF may be cut in the middle."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _joined(self, data: bytes) -> bytes:
        """The held bytes with `data`, once that holds the end of an event; before, hold it too."""
        if b"\n\n" not in data and not (data.startswith(b"\n") and self._tail.endswith(b"\n")):
            self._hold(data)
            return b""
        joined = bytes(self._tail) + data
        self._tail.clear()
        return joined

    def _hold(self, data: bytes) -> None:
        self._tail += data
        # One more than the bound: the first LF of the blank line may be in here.
        if len(self._tail) > MAX_EVENT_BYTES + 1:
            self._oversized = True
            del self._tail[:-1]

    def _event(self, event: bytes) -> None:
        if self._oversized or len(event) > MAX_EVENT_BYTES:
            self._oversized = False
            self._facts.malformed += 1
        elif event[:7] == b"data: {" and _LF not in event:
            self._facts.take_data(event[6:], self._stamp_s)
        elif data := _data_lines(event.removeprefix(_BOM) if self._at_start else event):
            self._facts.take_data(b"\n".join(data), self._stamp_s)
        self._at_start = False


def read_body(api: Api, body: bytes) -> Reply:
    """An answer that came as one JSON document, or an error body of any engine. No token stamps."""
    facts = _Facts(api)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        facts.malformed = 1
        facts.error = ReplyError(None, f"not a JSON object: {_shown(body)}")
        return facts.reply()
    facts.take(document, 0.0)
    facts.done = isinstance(document.get("choices"), list)
    facts.first_answer_s = None
    return facts.reply(stamped=False)


class _Facts:
    """What the events told so far."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.stamps_s: list[float] = []
        self.first_answer_s: float | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.done = False
        self.closing_usage = False
        self.error: ReplyError | None = None
        self.malformed = 0
        self.response_id: str | None = None
        self.timings = Timings()
        self.repeat: Repeat | None = None
        """Of the last event that held a token and no news beside it."""
        # Tokens so far where every chunk carries a usage; None where they do not.
        self.counted_tokens: int | None = 0

    def take_data(self, data: bytes, stamp_s: float) -> None:
        if data[:1] != b"{" and data.strip() == b"[DONE]":
            self.done = True
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            chunk = _loads_leniently(data)
        if isinstance(chunk, dict):
            before = len(self.stamps_s)
            self.take(chunk, stamp_s)
            if len(self.stamps_s) > before:
                self.repeat = Repeat.of(data, chunk["choices"])
        else:
            self.malformed += 1

    def take(self, chunk: dict[str, Any], stamp_s: float) -> None:
        choices = chunk.get("choices")
        if not choices or not isinstance(choices, list):
            self._take_rest(chunk)
            return
        if not _RARE_KEYS.isdisjoint(chunk):
            self._take_rare(chunk)
        if self.response_id is None:
            self.response_id = read.response_id(chunk)
        channel, reason = read.generated(choices)
        self.finish_reason = self.finish_reason or reason
        grew = self._count_tokens(chunk.get("usage"))
        if channel or grew:
            self.stamps_s.append(stamp_s)
            if self.first_answer_s is None and self._is_answer(channel):
                self.first_answer_s = stamp_s

    def _is_answer(self, channel: Channel | None) -> bool:
        # A token without text tells its channel only where there is but one.
        return channel == "answer" or (channel is None and self.api == "completions")

    def _take_rare(self, chunk: dict[str, Any]) -> None:
        self.error = self.error or read.error(chunk)
        self.timings = read.timings(chunk) or self.timings

    def _take_rest(self, chunk: dict[str, Any]) -> None:
        """A chunk without choices: an error, or the closing one with usage and timings."""
        self._take_rare(chunk)
        self.response_id = self.response_id or read.response_id(chunk)
        if found := read.usage(chunk.get("usage")):
            self.usage = found
            self.closing_usage = True

    def _count_tokens(self, value: object) -> bool:
        """Take a chunk's own usage; True when it tells of tokens that an earlier chunk did not.

        A first usage after chunks without one sums up; it does not say that a token came just now.
        """
        if value is None:
            self.counted_tokens = None
            return False
        found = read.usage(value)
        if found is None or found.output_tokens is None:
            return False
        before, self.counted_tokens = self.counted_tokens, found.output_tokens
        self.usage = found
        return before is not None and found.output_tokens > before

    def reply(self, *, stamped: bool = True) -> Reply:
        stamps_s = tuple(self.stamps_s) if stamped else ()
        return Reply(
            first_token_s=stamps_s[0] if stamps_s else None,
            first_answer_s=self.first_answer_s,
            last_token_s=stamps_s[-1] if stamps_s else None,
            content_stamps_s=stamps_s,
            has_content=bool(self.stamps_s),
            usage=self.usage,
            finish_reason=self.finish_reason,
            done=self.done,
            ended=self.done or self.closing_usage or self.finish_reason is not None,
            error=self.error,
            malformed_events=self.malformed,
            response_id=self.response_id,
            timings=self.timings,
        )


def _data_lines(event: bytes) -> list[bytes]:
    """The values of the `data` fields of one event; comments and other fields are dropped."""
    lines = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return lines


def _loads_leniently(data: bytes) -> object:
    """JSON of servers that cut a character in two: broken UTF-8, half a surrogate pair. Else None."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _shown(body: bytes) -> str:
    return read.one_line(body[:200].decode("utf-8", "replace")) or "an empty body"
