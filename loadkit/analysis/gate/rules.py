"""What a release may lose: `ttft:p99:10%`, `interactive:tpot:p50:5%`, `goodput_share:1%`."""

from dataclasses import dataclass

from loadkit.analysis.comparison.measures import MEASURES, Measure, chosen
from loadkit.errors import InputError

_EXAMPLE = "for example ttft:p99:10% or interactive:ttft:p99:10%"


@dataclass(frozen=True, slots=True)
class Rule:
    measure: Measure
    delta: float
    """Relative change, or points of a share, that is still accepted; 0.1 = 10 %."""
    lane: str | None = None
    """None = every lane that knows the measure."""

    @property
    def text(self) -> str:
        lane = f"{self.lane}:" if self.lane else ""
        quantile = "" if self.measure.quantile is None else f":p{self.measure.quantile * 100:g}"
        return f"{lane}{self.measure.metric}{quantile}:{self.delta * 100:g}%"


def rule(text: str) -> Rule:
    """`[LANE:]METRIC[:pNN]:PERCENT`. Raises InputError."""
    *named, percent = text.split(":")
    delta = _delta(text, percent)
    for lane, words in ((None, named), (named[0] if named else None, named[1:])):
        found = _measure(":".join(words))
        if found is not None:
            return Rule(found, delta, lane)
    known = ", ".join(dict.fromkeys(measure.metric for measure in MEASURES if measure.of))
    raise InputError(f"--max-regress {text!r}: no such metric", hint=f"{_EXAMPLE}; known: {known}")


def _delta(text: str, percent: str) -> float:
    try:
        value = float(percent.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not percent.endswith("%") or not 0 < value < 10:
        raise InputError(f"--max-regress {text!r}: {percent!r} is not a percentage", hint=_EXAMPLE)
    return value


def _measure(name: str) -> Measure | None:
    """The one measure of this name that exists within a run and has a better side."""
    try:
        found = [m for m in chosen((name,)) if m.of and m.better != "neither"] if name else []
    except InputError:
        return None
    return found[0] if len(found) == 1 else None


DEFAULT_RULES = tuple(
    map(
        rule,
        (
            "ttft:p50:5%",
            "ttft:p99:10%",
            "tpot:p50:5%",
            "e2e:p99:10%",
            "goodput_share:1%",
            "completed:1%",
        ),
    )
)
