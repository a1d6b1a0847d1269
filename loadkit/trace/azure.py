"""Azure LLM inference traces, 2023 and 2024: `TIMESTAMP,ContextTokens,GeneratedTokens`.

2023 stamps are naive with 7 fractional digits and CRLF line ends; 2024 stamps carry `+00:00` and
have no fraction on a whole second. All digits are kept: times stay integer nanoseconds until the
first one is subtracted. No lane, tenant or session is recorded, and none is guessed.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadkit.trace import csvfile
from loadkit.trace.cells import Place, token_counts
from loadkit.trace.raw import Raw, ReadOptions, joined
from loadkit.trace.source import Source

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

_STAMP = (
    r"^(?P<date>\d{4}-\d{2}-\d{2})[ T](?P<time>\d{2}:\d{2}:\d{2})"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d{2}:?\d{2})?$"
)
_FACTS = {
    "licence": "CC-BY-4.0",
    "attribution": "Azure Public Dataset, LLM inference traces (Patel et al. 2024; Stojkovic et al. 2025)",
}
_NAIVE = "times carry no zone: read as UTC"


def sniff(source: Source) -> bool:
    return set(COLUMNS) <= set(csvfile.header(source))


def read(source: Source, _options: ReadOptions) -> Raw:
    """Raises TraceError."""
    chunks: list[dict[str, Any]] = []
    naive, digits = False, 0
    for batch, place in csvfile.blocks(source, COLUMNS):
        stamps = instants(batch["TIMESTAMP"], "TIMESTAMP", place)
        naive, digits = naive or not stamps.all_zoned, max(digits, stamps.digits)
        chunks.append(
            {
                "stamp_ns": pa.array(stamps.unix_ns),
                "prompt_tokens": token_counts(batch["ContextTokens"], "ContextTokens", place),
                "output_tokens": token_counts(batch["GeneratedTokens"], "GeneratedTokens", place),
            }
        )
    columns = joined(chunks)
    stamp_ns = columns.pop("stamp_ns").to_numpy()
    return Raw(
        source="azure2023" if naive else "azure2024",
        columns=columns,
        arrival_s=(stamp_ns - stamp_ns[0]) / 1e9,
        rebase=True,
        first_line=2,
        t0_ns=int(stamp_ns[0]),
        facts=_FACTS | {"tz": None if naive else "UTC", "time_resolution_s": 10.0**-digits},
        warnings=(_NAIVE,) if naive else (),
    )


class Instants(NamedTuple):
    unix_ns: npt.NDArray[np.int64]
    all_zoned: bool
    digits: int
    """The most fractional digits in any cell."""


def instants(cells: Any, name: str, place: Place) -> Instants:
    """ISO 8601 instants → Unix ns, exact to the ninth digit.

    Raises TraceError on a cell that is not an instant.
    """
    parts = pc.extract_regex(cells, _STAMP)
    _require_instants(parts.is_valid(), cells, name, place)
    date, time, fraction, zone = parts.flatten()
    second = pc.binary_join_element_wise(date, time, " ")
    try:
        seconds = second.cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        _require_instants(_parses(second), cells, name, place)
        raise
    nanos = pc.utf8_rpad(fraction, 9, "0").cast(pa.int64()).to_numpy()
    offsets_s, has_zone = _offsets_s(zone)
    digits = pc.max(pc.utf8_length(fraction)).as_py()
    return Instants((seconds - offsets_s) * 1_000_000_000 + nanos, has_zone, digits)


def _require_instants(good: Any, cells: Any, name: str, place: Place) -> None:
    index = pc.index(good, False).as_py()
    if index >= 0:
        raise place.bad_cell(
            index, name, cells[index].as_py(), "an instant like 2024-05-12 00:00:00.123456"
        )


def _parses(seconds: Any) -> Any:
    """Cell by cell, for an error message only: the month 13 is found here."""
    parsed = pc.strptime(seconds, "%Y-%m-%d %H:%M:%S", "s", error_is_null=True)
    good = parsed.is_valid().to_pylist()
    return pa.array([valid and _casts(text) for valid, text in zip(good, seconds, strict=True)])


def _casts(text: Any) -> bool:
    try:
        text.cast(pa.timestamp("s"))
    except pa.ArrowInvalid:
        return False
    return True


def _offsets_s(zone: Any) -> tuple[npt.NDArray[np.int64], bool]:
    """`+08:00` → 28800 by distinct value: a file has one or two."""
    encoded = zone.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    seconds = np.array([_offset_s(word) for word in words], np.int64)
    return seconds[encoded.indices.to_numpy()], "" not in words


def _offset_s(zone: str) -> int:
    if zone in {"", "Z"}:
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
