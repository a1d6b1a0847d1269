"""Every rule under every load, and one verdict for the release."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadkit.analysis.comparison.paired import (
    MIN_PAIRS,
    Estimate,
    constant,
    estimate,
    interval,
    pairs_needed,
)
from loadkit.analysis.gate.cause import cause
from loadkit.analysis.gate.loads import Load, loads
from loadkit.analysis.gate.rules import DEFAULT_RULES, Rule
from loadkit.analysis.gate.verdicts import GateVerdict, gate_verdict, hochberg, loss_p
from loadkit.errors import InputError
from loadkit.model import Slo

_GRAVEST: tuple[GateVerdict, ...] = (
    "INVALID", "REGRESSION", "INCONCLUSIVE", "SMALL REGRESSION WITHIN", "NO REGRESSION BEYOND", "IMPROVEMENT",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """One rule in one lane under one load."""

    load: str
    lane: str
    rule: Rule
    base: float | None
    """Mean over the runs that were paired, in the unit of the measure."""
    new: float | None
    change: float | None
    """new / base - 1 where `relative`, else new - base; with its 95 % interval."""
    low: float | None
    high: float | None
    relative: bool
    verdict: GateVerdict
    pairs: int
    pairs_needed: int | None
    """For an interval as narrow as the rule; None where that cannot be told."""
    why: str
    cause: str = ""
    """Of a TTFT that got worse: queue wait, prefill or neither, from the engine's own numbers."""


@dataclass(frozen=True, slots=True)
class Gate:
    loads: tuple[Load, ...]
    rules: tuple[Rule, ...]
    results: tuple[Result, ...]
    cautions: tuple[str, ...]

    @property
    def verdict(self) -> GateVerdict:
        """The gravest of all results."""
        said = {result.verdict for result in self.results}
        return next((verdict for verdict in _GRAVEST if verdict in said), "INVALID")

    def exit_code(self, *, inconclusive_passes: bool) -> int:
        if self.verdict == "INVALID":
            return 3
        failed = self.verdict == "REGRESSION"
        return int(failed or (self.verdict == "INCONCLUSIVE" and not inconclusive_passes))


@dataclass(frozen=True, slots=True)
class _Row:
    load: Load
    shown: Result
    found: Estimate | None
    margin: float = 0.0
    unknown: bool = False
    """Neither invalid nor known: of no interest unless it was asked for."""


def gate(
    base: Sequence[Path],
    new: Sequence[Path],
    rules: Sequence[Rule] = (),
    slos: Sequence[Slo] = (),
) -> Gate:
    """Judge a release. Raises InputError for bad usage or runs that cannot be paired, RunError."""
    if not base or not new:
        raise InputError("runs of both releases are needed", hint="loadkit gate BASE… -- NEW…")
    found = loads(base, new, slos)
    asked = tuple(rules) or DEFAULT_RULES
    rows = [row for load in found for one in asked for row in _rows(load, one, asked=bool(rules))]
    if not rows:
        raise InputError("nothing that the rules name is known in these runs")
    return Gate(tuple(found), asked, tuple(_judged(rows)), tuple(_cautions(found)))


def _rows(load: Load, one: Rule, *, asked: bool) -> list[_Row]:
    lanes = [one.lane] if one.lane else list(load.base.runs[0].lanes)
    rows = [_row(load, lane, one) for lane in lanes]
    told = [row for row in rows if not row.unknown]
    return told if told or not asked else rows


def _row(load: Load, lane: str, one: Rule) -> _Row:
    blank = Result(
        load.name, lane, one, None, None, None, None, None,
        relative=False, verdict="INVALID", pairs=0, pairs_needed=None, why="",
    )  # fmt: skip
    place = lane, one.measure.key
    pairs = [
        (a, b)
        for a, b in zip(load.base.values_of(place), load.new.values_of(place), strict=False)
        if a is not None and b is not None
    ]
    reason = _why_invalid(load, lane)
    if not reason and not pairs:
        unknown = f"{one.measure.title} is not known in both releases"
        return _Row(load, replace(blank, why=unknown), None, unknown=True)
    if reason:
        return _Row(load, replace(blank, why=reason), None)
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    mean_base, mean_new = sum(before) / len(before), sum(after) / len(after)
    blank = replace(blank, base=mean_base, new=mean_new, pairs=len(pairs))
    relative = one.measure.unit != "share" and min(*before, *after) > 0
    exact = load.base.simulated and load.new.simulated and len(pairs) == 1
    found = estimate(before, after, relative=relative, exact=exact)
    margin = math.log1p(one.delta) if relative else one.delta * (
        1.0 if one.measure.unit == "share" else max(mean_base, 1e-9)
    )  # fmt: skip
    ends = interval(found)
    return _Row(
        load,
        replace(
            blank,
            change=_as_change(found.mean, relative=relative),
            low=None if ends is None else _as_change(ends[0], relative=relative),
            high=None if ends is None else _as_change(ends[1], relative=relative),
            relative=relative,
        ),
        found,
        margin,
    )


def _why_invalid(load: Load, lane: str) -> str:
    for arm in (load.base, load.new):
        if arm.reasons:
            return f"{arm.label} run {arm.reasons[0]}"
        if any(lane not in run.lanes for run in arm.runs):
            return f"lane {lane} is missing in a {arm.label} run"
    return ""


def _as_change(value: float, *, relative: bool) -> float:
    return math.expm1(min(value, 700.0)) if relative else value


def _judged(rows: Sequence[_Row]) -> list[Result]:
    """With a false alarm in at most 5 % of the releases in which nothing changed (Hochberg)."""
    tested = [row for row in rows if row.found and not constant(row.found)]
    adjusted = hochberg([_loss_p(row) for row in tested])
    p_of = {id(row): p for row, p in zip(tested, adjusted, strict=True)}
    return [_result(row, p_of.get(id(row), 1.0)) for row in rows]


def _loss_p(row: _Row) -> float:
    better = row.shown.rule.measure.better
    return 1.0 if row.found is None or better == "neither" else loss_p(row.found, better)


def _result(row: _Row, adjusted_p: float) -> Result:
    found, shown = row.found, row.shown
    better = shown.rule.measure.better
    if found is None or better == "neither":
        return shown
    said = gate_verdict(found, adjusted_p, row.margin, better)
    needed = pairs_needed(found, row.margin)
    judged = replace(shown, verdict=said, pairs_needed=needed, why=_why(said, found, needed))
    measure = shown.rule.measure
    if measure.metric != "ttft" or measure.quantile is None or (judged.change or 0.0) <= 0:
        return judged
    return replace(judged, cause=cause(row.load, shown.lane, measure.quantile))


def _why(said: GateVerdict, found: Estimate, needed: int | None) -> str:
    if found.exact:
        return "simulated on identical arrivals: exact for this trace"
    if found.pairs < MIN_PAIRS:
        return f"{found.pairs} pair{'s' * (found.pairs > 1)} of runs: {MIN_PAIRS} or more can tell"
    if said == "INCONCLUSIVE":
        more = (
            f"about {needed} pairs would settle it" if needed else "no number of pairs is foreseen"
        )
        return f"{found.pairs} pairs do not settle it, {more}"
    return f"{found.pairs} pairs"


def _cautions(found: Sequence[Load]) -> list[str]:
    texts = []
    for load in found:
        if not load.interleaved:
            texts.append(
                f"{load.name}: the runs of one release were all made before those of the other; what "
                "drifts with time then looks like a change (make them in turn: A B B A)"
            )
        base, new = len(load.base.runs), len(load.new.runs)
        if base != new:
            texts.append(f"{load.name}: {base} base and {new} new runs: the surplus is not used")
    return texts
