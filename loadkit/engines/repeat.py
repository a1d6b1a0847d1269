"""Recognising an event of a stream that differs from an earlier one in the text of its token alone.

Reading JSON is most of what a client spends on a stream, and nearly all events of one are equal byte
for byte but for that one string. Such an event means what the earlier one meant: nothing need be read.
"""

import re
from typing import Any, NamedTuple

_TEXT_KEYS = ("text", "content", "reasoning_content", "reasoning")
_PLAIN = re.compile(rb"[ !#-\[\]-~]+")
"""ASCII that a JSON string holds as it is: no quote, no backslash, no control character."""


class Repeat(NamedTuple):
    """The bytes around a token's text, from the `data:` field to the blank line."""

    head: bytes
    tail: bytes

    @classmethod
    def of(cls, data: bytes, choices: list[Any]) -> "Repeat | None":
        """What repeats of this event look like; None where its text does not stand out."""
        text = _text(choices)
        if text is None or not _PLAIN.fullmatch(text):
            return None
        for opening in (b'":"', b'": "'):
            if data.count(opening + text + b'"') == 1:
                head, _, tail = data.partition(opening + text + b'"')
                return cls(b"data: " + head + opening, b'"' + tail + b"\n\n")
        return None

    def fits(self, data: bytes) -> bool:
        """Whether these bytes are such an event, whole, with a text that is not empty."""
        head, tail = self
        return (
            data.startswith(head)
            and data.endswith(tail)
            and _PLAIN.fullmatch(data, len(head), len(data) - len(tail)) is not None
        )


def _text(choices: list[Any]) -> bytes | None:
    """The text of the only choice, if that is all that was generated."""
    if len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    part = choices[0].get("delta") or choices[0]
    if not isinstance(part, dict):
        return None
    texts = [part[key] for key in _TEXT_KEYS if part.get(key)]
    return (
        texts[0].encode("utf-8", "replace")
        if len(texts) == 1 and isinstance(texts[0], str)
        else None
    )
