"""The formats that can be read, and which one a file is: told by its content, never by its name."""

from collections.abc import Callable
from typing import NamedTuple

from loadkit.errors import TraceError
from loadkit.trace import azure, burstgpt, mooncake, own
from loadkit.trace.raw import Raw, ReadOptions
from loadkit.trace.schema import REQUIRED
from loadkit.trace.source import Source

Reader = Callable[[Source, ReadOptions], Raw]


class Format(NamedTuple):
    sniff: Callable[[Source], bool]
    read: Reader
    takes: frozenset[str] = frozenset()
    """The fields of ReadOptions that mean something here, beyond those that always do."""


FORMATS: dict[str, Format] = {
    "azure": Format(azure.sniff, azure.read),
    "burstgpt": Format(burstgpt.sniff, burstgpt.read, frozenset({"api_lane"})),
    "mooncake": Format(mooncake.sniff, mooncake.read, frozenset({"time_unit"})),
    "parquet": Format(lambda source: source.is_parquet, own.read_parquet),
    "jsonl": Format(own.sniff_jsonl, own.read_jsonl, frozenset({"time_unit"})),
    "csv": Format(own.sniff_csv, own.read_csv, frozenset({"time_unit"})),
}


def format_of(source: Source, asked: str | None) -> str:
    """The format asked for, or the one that the content shows. Raises TraceError."""
    if asked is None:
        found = next((name for name, known in FORMATS.items() if _fits(source, name, known)), None)
        if found is None:
            raise _unknown(source)
        return found
    if asked not in FORMATS:
        raise TraceError(f"{asked!r} is not a format", hint=f"known: {', '.join(FORMATS)}")
    if source.is_parquet != (asked == "parquet"):
        actual = "Parquet" if source.is_parquet else "text"
        raise TraceError(f"{source.path}: is {actual}, not {asked}", hint="leave --format out")
    return asked


def _fits(source: Source, name: str, known: Format) -> bool:
    if source.is_parquet:
        return name == "parquet"
    is_json = source.first_line.startswith("{")
    return is_json == (name in {"mooncake", "jsonl"}) and known.sniff(source)


def _unknown(source: Source) -> TraceError:
    return TraceError(
        f"{source.path}: is not a trace format I know (it begins {source.first_line[:80]!r})",
        hint=f"known: {', '.join(FORMATS)}; or rename its columns to {', '.join(REQUIRED)}",
    )


def check_options(name: str, options: ReadOptions) -> None:
    """Refuse an option that would be ignored. Raises TraceError."""
    for option in ("api_lane", "time_unit"):
        if getattr(options, option) is not None and option not in FORMATS[name].takes:
            flag = "--" + option.replace("_", "-")
            raise TraceError(f"{flag} means nothing for the format {name}", hint="leave it out")
