"""From the differences of paired runs to a verdict against what may be lost."""

from collections.abc import Sequence
from typing import Literal

from loadkit.analysis.comparison.paired import ALPHA, MIN_PAIRS, Estimate, interval, p_value

GateVerdict = Literal[
    "REGRESSION",
    "SMALL REGRESSION WITHIN",
    "NO REGRESSION BEYOND",
    "IMPROVEMENT",
    "INCONCLUSIVE",
    "INVALID",
]
_ONE_SIDED_LEVEL = 0.90
"""The upper end of a 90 % interval is a one-sided test at 5 %."""
_NOTHING = 1e-9


def gate_verdict(
    found: Estimate, adjusted_p: float, margin: float, better: Literal["lower", "higher"]
) -> GateVerdict:
    """`margin` in units of the mean; `adjusted_p` of `loss_p`, adjusted for all that is tested.

    A loss that is shown is a REGRESSION, unless it is also shown to be smaller than the margin; without
    a shown loss, only an interval that ends below the margin clears the release.
    """
    loss = found.mean if better == "lower" else -found.mean
    if found.exact:
        return _exact(loss, margin)
    one_sided, both_sides = interval(found, _ONE_SIDED_LEVEL), interval(found)
    if one_sided is None or both_sides is None or found.pairs < MIN_PAIRS:
        return "INCONCLUSIVE"
    if (both_sides[1] if better == "lower" else -both_sides[0]) < 0:
        return "IMPROVEMENT"
    most = one_sided[1] if better == "lower" else -one_sided[0]
    shown = adjusted_p < ALPHA
    if most <= margin:
        return "SMALL REGRESSION WITHIN" if shown else "NO REGRESSION BEYOND"
    return "REGRESSION" if shown else "INCONCLUSIVE"


def loss_p(found: Estimate, better: Literal["lower", "higher"]) -> float:
    """Of a paired one-sided t test against no loss; 1 where the pairs are too few to tell."""
    loss = found.mean if better == "lower" else -found.mean
    two_sided = p_value(found)
    return two_sided / 2 if loss > 0 else 1 - two_sided / 2


def hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that the chance of any false alarm among them all is at most ALPHA (Hochberg 1988).

    Valid for numbers that get worse together, as quantiles of the latencies of one server do; then it
    finds more than Holm.
    """
    adjusted, running = [1.0] * len(p_values), 1.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__, reverse=True)
    for rank, place in enumerate(order, start=1):
        running = min(running, rank * p_values[place])
        adjusted[place] = running
    return adjusted


def _exact(loss: float, margin: float) -> GateVerdict:
    if abs(loss) < _NOTHING:
        return "NO REGRESSION BEYOND"
    if loss < 0:
        return "IMPROVEMENT"
    return "REGRESSION" if loss > margin else "SMALL REGRESSION WITHIN"
