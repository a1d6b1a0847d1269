"""Prompts of a planned token length without a tokenizer, as ready JSON.

Two kinds. Token ids, where the engine takes them: the length is exact by construction. Text of common
four-letter words otherwise: its length in tokens is calibrated by a probe call.
Every prompt starts with words of its own, so that no prefix cache is hit by accident; turns of one
session extend one another, and prefixes that the trace shares are shared.

Units (ids or words) all have one width in bytes, so any prompt is a few slices of one prepared pool:
40,000 tokens cost a memory copy, not a loop.
"""

import hashlib
import math
from dataclasses import dataclass
from random import Random
from typing import Literal

from loadkit.model import Send

POOL_UNITS = 1 << 16
TOKEN_ID_RANGES = ((1000, 10000), (100, 256))
"""Ids of one width. The first suits every real vocabulary; the second the tiny ones of test models."""
PROBE_UNITS = 256
"""Length of a probe; less where an eighth of the model's context is less."""
MIN_TOKENS_PER_WORD, MAX_TOKENS_PER_WORD = 0.2, 20.0
_HEADER_BITS = 48
"""Distinct starts of prompts: 2^48, so a run of a million has a collision in one of 500 runs."""

WORDS = """
able also area away back ball bank base bear beat best bill bird blue boat body book born both busy
call came camp card care case cast city club cold come cook cool copy corn cost dark data date days
dead deal deep desk does done door down draw drop dust duty each earn east easy edge ever face fact
fair fall farm fast fear feel feet fill film find fine fire fish five flat flow food foot form four
free from full fund game gave girl give glad goal goes gold gone good gray grew grow hair half hall
hand hard have head hear heat held help here high hill hold home hope hour huge idea into iron item
join jump just keep kept kind king knew know lack lady lake land last late lead left less life lift
like line list live long look lord lose loss lost loud love made mail main make many mark mass meal
mean meat meet mind mine miss moon more most move much must name near neck need news next nice nine
none noon nose note once only onto open over page paid pain pair park part pass past path peak pick
plan play poem poor port post pull pure push race rain rate read real rest rice rich ride ring rise
road rock role roll roof room root rose rule safe said sail sale salt same sand save seat seed seek
seem seen self sell send sent shed ship shop shot show shut sick side sign sing site size skin slow
snow soft soil sold sole some song soon sort soul spot star stay step stop such suit sure take talk
tall task team tell term test text than that them then they thin this thus time tiny told tone tool
town tree trip true turn type unit upon used vast very view vote wait walk wall want warm wash wave
ways week well went were west what when whom wide wife wild will wind wine wing wire wise wish with
wood word work yard year
""".split()  # noqa: SIM905  (a column of prose reads better than 350 quoted words)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How units turn into tokens on one target: tokens = overhead + units x tokens_per_unit."""

    kind: Literal["token_ids", "text"]
    tokens_per_unit: float = 1.0
    overhead_tokens: int = 0
    """What the engine adds: a BOS token, a chat template."""
    id_range: tuple[int, int] = TOKEN_ID_RANGES[0]

    def units(self, tokens: int) -> int:
        """Units that make a prompt of `tokens`, at least 1."""
        return max(1, round((tokens - self.overhead_tokens) / self.tokens_per_unit))


def calibrate_text(samples: list[tuple[int, int]]) -> Calibration:
    """From (words sent, prompt tokens counted by the server).

    One sample fits an engine that makes one token of each word; two samples fit any line.
    """
    (words, tokens), *more = samples
    if not more:
        return Calibration("text", 1.0, tokens - words)
    other_words, other_tokens = more[0]
    slope = (tokens - other_tokens) / (words - other_words)
    if not MIN_TOKENS_PER_WORD < slope < MAX_TOKENS_PER_WORD:
        return Calibration("text")  # no honest count of these words: rows will show how far off
    return Calibration("text", slope, max(0, round(tokens - slope * words)))


def one_token_per_word(words: int, tokens: int) -> bool:
    """Whether a single probe settles the calibration: the excess is small enough for a template."""
    return 0 <= tokens - words < words // 4


class PromptMaker:
    """Makes prompts for one run. `salt` keeps them apart from those of any other run."""

    def __init__(self, calibration: Calibration, salt: str) -> None:
        self.calibration = calibration
        self._salt = salt
        if calibration.kind == "token_ids":
            self._units = [b"%d," % i for i in range(*calibration.id_range)]
        else:
            self._units = [b" " + word.encode() for word in WORDS]
        self._width_bytes = len(self._units[0])
        chosen = Random(salt).choices(self._units, k=POOL_UNITS)
        self._pool = b"".join(chosen)
        self._header_units = math.ceil(_HEADER_BITS / math.log2(len(self._units)))

    def json_for(self, send: Send) -> bytes:
        """The JSON value of `prompt` for this request: a list of ids or a string.

        A turn of a session starts with all of the turns before it, as far as their lengths tell.
        """
        units = self.calibration.units(send.prompt_tokens)
        shared = self._shared_prefix(send)[: units * self._width_bytes]
        rest = units - len(shared) // self._width_bytes
        return self._as_json(shared + self._stream(send.session or send.request_id, rest))

    def probe_json(self, units: int) -> bytes:
        return self._as_json(self._stream("probe", units))

    def _shared_prefix(self, send: Send) -> bytes:
        per_block = round((send.prefix_block or 0) / self.calibration.tokens_per_unit)
        return b"".join(
            self._stream(f"{send.prefix_ns}#{block_id}", per_block) for block_id in send.prefix_ids
        )

    def _stream(self, key: str, units: int) -> bytes:
        """The first `units` of an endless text that belongs to `key`: equal keys share all of it."""
        digest = hashlib.blake2b(f"{self._salt}|{key}".encode(), digest_size=16).digest()
        number, at = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
        header = []
        for _ in range(self._header_units):
            number, index = divmod(number, len(self._units))
            header.append(self._units[index])
        return b"".join(header[:units]) + self._slice(at % POOL_UNITS, units - self._header_units)

    def _slice(self, at: int, units: int) -> bytes:
        if units <= 0:
            return b""
        start = at * self._width_bytes
        piece = self._pool[start : start + units * self._width_bytes]
        missing = units - len(piece) // self._width_bytes
        whole, part = divmod(missing, POOL_UNITS)
        return piece + self._pool * whole + self._pool[: part * self._width_bytes]

    def _as_json(self, units: bytes) -> bytes:
        if self.calibration.kind == "token_ids":
            return b"[" + units[:-1] + b"]"
        return b'"' + units[1:] + b'"'
