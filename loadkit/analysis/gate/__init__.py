"""Did this release get slower? Paired runs on the same schedules, judged against what may be lost.

The unit is the run, as in `comparison`: tests over requests take the luck of a run for an effect.
"""

from loadkit.analysis.gate.gate import Gate, Result, gate
from loadkit.analysis.gate.rules import DEFAULT_RULES, Rule, rule
from loadkit.analysis.gate.verdicts import GateVerdict

__all__ = ["DEFAULT_RULES", "Gate", "GateVerdict", "Result", "Rule", "gate", "rule"]
