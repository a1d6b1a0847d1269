"""The verdict in plain words."""

from typing import Literal, NamedTuple

from loadkit.analysis.comparison.measures import Unit
from loadkit.analysis.gate import Gate, GateVerdict, Result
from loadkit.report import numbers

_NBSP = "\N{NO-BREAK SPACE}"
MARKS: dict[GateVerdict, str] = {
    "REGRESSION": "✗",
    "SMALL REGRESSION WITHIN": "✓",
    "NO REGRESSION BEYOND": "✓",
    "IMPROVEMENT": "✓",
    "INCONCLUSIVE": "?",
    "INVALID": "!",
}
_FORMS = {
    "s": numbers.seconds,
    "share": numbers.share,
    "count": numbers.count,
    "tokens": numbers.count,
    "per_h": numbers.level,
}


class Headline(NamedTuple):
    word: str
    tone: Literal["valid", "open", "invalid"]
    sentence: str


def headline(found: Gate) -> Headline:
    said = found.verdict
    if said == "INVALID":
        return Headline("INVALID", "invalid", "Some runs say nothing about the server.")
    if said == "REGRESSION":
        worst = [result for result in found.results if result.verdict == said]
        more = f" and {len(worst) - 1} more" if len(worst) > 1 else ""
        return Headline("REGRESSION", "invalid", f"{_told(worst[0])}{more}.")
    if said == "INCONCLUSIVE":
        open_ = [result for result in found.results if result.verdict == said]
        needed = [result.pairs_needed for result in open_ if result.pairs_needed]
        more = f" About {max(needed)} pairs of runs would settle all of it." if needed else ""
        count = f"{len(open_)} of {len(found.results)} numbers are not settled."
        return Headline("INCONCLUSIVE", "open", f"{count}{more}")
    if said == "SMALL REGRESSION WITHIN":
        return Headline("PASSED", "valid", "Something got slower, by less than is accepted.")
    return Headline("PASSED", "valid", "Nothing got worse by more than is accepted.")


def _told(result: Result) -> str:
    because = f", in {result.cause}" if result.cause else ""
    return f"{result.lane} {result.rule.measure.title} {change(result)} at {result.load}{because}"


def value(found: float | None, unit: Unit) -> str:
    return _FORMS[unit](found)


def change(result: Result) -> str:
    return _change(result.change, result)


def interval(result: Result) -> str:
    if result.low is None or result.high is None:
        return numbers.UNKNOWN
    if result.low == result.high:
        return "exact"
    return f"{_change(result.low, result)} to {_change(result.high, result)}"


def _change(found: float | None, result: Result) -> str:
    if found is None:
        return numbers.UNKNOWN
    sign = "+" if found > 0 else "\N{MINUS SIGN}" if found < 0 else ""
    if result.relative:
        return f"{sign}{abs(found) * 100:.1f}{_NBSP}%"
    if result.rule.measure.unit == "share":
        return f"{sign}{abs(found) * 100:.1f}{_NBSP}points"
    return f"{sign}{value(abs(found), result.rule.measure.unit)}"


def verdict(result: Result) -> str:
    """With what is accepted, where the verdict speaks of it."""
    beyond = f" {result.rule.delta * 100:g}{_NBSP}%"
    return result.verdict + (beyond if result.verdict.endswith(("BEYOND", "WITHIN")) else "")
