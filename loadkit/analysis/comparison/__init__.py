"""Runs of one trace side by side: what differs between policies or releases, and how sure that is.

Live runs are judged over repeats, pair by pair; a single pair proves nothing and is called inconclusive.
Simulated runs on identical arrivals have no noise, so their differences are exact.
"""

from loadkit.analysis.comparison.as_json import comparison_json
from loadkit.analysis.comparison.compare import (
    Comparison,
    compare,
    compare_arms,
    comparison_exit_code,
)
from loadkit.analysis.comparison.differences import OTHER_WORK, Difference
from loadkit.analysis.comparison.measures import MEASURES, WHOLE_RUN, Measure
from loadkit.analysis.comparison.occupancy import Occupancy
from loadkit.analysis.comparison.paired import MIN_PAIRS, Verdict
from loadkit.analysis.comparison.runs import Arm, Measured
from loadkit.analysis.comparison.settings import Settings
from loadkit.analysis.comparison.tradeoff import Choice, SloMark, Standing, TradeOff

__all__ = [
    "MEASURES",
    "MIN_PAIRS",
    "OTHER_WORK",
    "WHOLE_RUN",
    "Arm",
    "Choice",
    "Comparison",
    "Difference",
    "Measure",
    "Measured",
    "Occupancy",
    "Settings",
    "SloMark",
    "Standing",
    "TradeOff",
    "Verdict",
    "compare",
    "compare_arms",
    "comparison_exit_code",
    "comparison_json",
]
