"""From the differences of paired runs to a verdict against what may be lost."""

from typing import Literal

from loadkit.analysis.comparison.paired import ALPHA, MIN_PAIRS, Estimate, interval

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
    """`margin` in units of the mean; `adjusted_p` of the two-sided paired test, for all that is tested.

    A loss that is shown is a REGRESSION, unless it is also shown to be smaller than the margin; without
    a shown loss, only an interval that ends below the margin clears the release.
    """
    loss = found.mean if better == "lower" else -found.mean
    if found.exact:
        return _exact(loss, margin)
    bounds = interval(found, _ONE_SIDED_LEVEL)
    if bounds is None or found.pairs < MIN_PAIRS:
        return "INCONCLUSIVE"
    most = bounds[1] if better == "lower" else -bounds[0]
    shown = adjusted_p < ALPHA
    if shown and loss < 0:
        return "IMPROVEMENT"
    if most <= margin:
        return "SMALL REGRESSION WITHIN" if shown else "NO REGRESSION BEYOND"
    return "REGRESSION" if shown else "INCONCLUSIVE"


def _exact(loss: float, margin: float) -> GateVerdict:
    if abs(loss) < _NOTHING:
        return "NO REGRESSION BEYOND"
    if loss < 0:
        return "IMPROVEMENT"
    return "REGRESSION" if loss > margin else "SMALL REGRESSION WITHIN"
