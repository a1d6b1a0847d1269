"""How a compared value, a change and its interval are written."""

from loadkit.analysis.comparison import Difference, Verdict
from loadkit.analysis.comparison.measures import Unit
from loadkit.report import numbers

_NBSP = "\N{NO-BREAK SPACE}"
_MINUS, _TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
_FORMS = {
    "s": numbers.seconds,
    "share": numbers.share,
    "count": numbers.count,
    "tokens": numbers.count,
    "per_h": numbers.level,
}
_SIGNED_RATIO = 3.0
"""From here on a factor reads better than a percentage."""

MARKS: dict[Verdict, str] = {
    "better": "✓",
    "worse": "✗",
    "no difference shown": "=",
    "inconclusive": "?",
}


def value(found: float | None, unit: Unit) -> str:
    return _FORMS[unit](found)


def change(found: float | None, difference: Difference) -> str:
    """`+8.7 %`, a factor from 3 on, `+1.3 points`, `+250 ms`; a dash for None."""
    if found is None:
        return numbers.UNKNOWN
    if difference.relative:
        return _ratio(1 + found)
    if difference.measure.unit == "share":
        return f"{_signed(f'{abs(found) * 100:.1f}', found)}{_NBSP}points"
    return _signed(value(abs(found), difference.measure.unit), found)


def interval(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return numbers.UNKNOWN
    if difference.low == difference.high:
        return "exact" if "exact" in difference.why else change(difference.low, difference)
    return f"{change(difference.low, difference)} to {change(difference.high, difference)}"


def _ratio(factor: float) -> str:
    if factor >= _SIGNED_RATIO:
        return f"{_TIMES}{numbers.level(factor)}"
    if factor <= 1 / _SIGNED_RATIO:
        return f"÷{numbers.level(1 / factor) if factor > 0 else '∞'}"
    percent = abs(factor - 1) * 100
    return _signed(f"{percent:.1f}{_NBSP}%", factor - 1) if percent >= 0.05 else f"0{_NBSP}%"


def _signed(size: str, sign: float) -> str:
    return f"{'+' if sign > 0 else _MINUS if sign < 0 else ''}{size}"
