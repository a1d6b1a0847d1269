"""Paths of runs → one small comparison. The reports read this and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadkit.analysis.comparison.cautions import cautions
from loadkit.analysis.comparison.differences import Difference, differences
from loadkit.analysis.comparison.grouping import group
from loadkit.analysis.comparison.measures import Measure, chosen
from loadkit.analysis.comparison.runs import Arm, measure, slos_told
from loadkit.analysis.comparison.settings import Settings, split
from loadkit.analysis.comparison.tradeoff import (
    Choice,
    SloMark,
    TradeOff,
    choose,
    meeting,
    slo_marks,
    trade_off,
)
from loadkit.analysis.comparison.work import why_other_work
from loadkit.analysis.facts import RunTables
from loadkit.errors import CriterionFailedError, InputError, InvalidRunError
from loadkit.model import Slo

LATE_S = 2.0


@dataclass(frozen=True, slots=True)
class Comparison:
    arms: tuple[Arm, ...]
    """In the order given; every other is compared with the first."""
    lanes: tuple[str, ...]
    measures: tuple[Measure, ...]
    late_s: float
    slos: tuple[Slo, ...]
    slos_asked: bool
    """Given with the comparison, not taken from the runs: they then decide over the exit code."""
    differences: tuple[Difference, ...]
    marks: tuple[SloMark, ...]
    trade_off: TradeOff | None
    choice: Choice | None
    cautions: tuple[str, ...]
    settings: Settings

    @property
    def baseline(self) -> Arm:
        return self.arms[0]

    @property
    def exact(self) -> bool:
        return all(arm.simulated for arm in self.arms)

    @property
    def invalid(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.arms if arm.reasons)

    @property
    def on_other_work(self) -> tuple[str, ...]:
        """Labels of the arms that were given other work than the baseline, or stopped elsewhere."""
        first = self.baseline.manifest
        return tuple(arm.label for arm in self.arms if why_other_work(first, arm.manifest))

    @property
    def meeting(self) -> tuple[str, ...]:
        """Labels of the arms that meet every SLO."""
        return tuple(arm.label for arm in meeting(self.arms, self.marks))


def compare(
    paths: Sequence[Path],
    *,
    labels: Sequence[str] = (),
    slos: Sequence[Slo] = (),
    lanes: Sequence[str] = (),
    metrics: Sequence[str] = (),
    late_s: float = LATE_S,
) -> Comparison:
    """Compare runs of one schedule with the first of them.

    Raises InputError for bad usage or runs that may not be compared, RunError for unreadable ones.
    """
    chosen(tuple(metrics))  # a word that is unknown is told before any file is read
    grouped = group(paths, labels)
    return compare_arms(grouped, slos=slos, lanes=lanes, metrics=metrics, late_s=late_s)


def compare_arms(
    grouped: Mapping[str, Sequence[RunTables]],
    *,
    slos: Sequence[Slo] = (),
    lanes: Sequence[str] = (),
    metrics: Sequence[str] = (),
    late_s: float = LATE_S,
) -> Comparison:
    """The same of runs by label, known to be of one schedule."""
    measures = chosen(tuple(metrics))
    runs = [run for same in grouped.values() for run in same]
    judged = tuple(slos) or slos_told(runs)
    arms = tuple(
        Arm(label, tuple(measure(run, judged, late_s) for run in same))
        for label, same in grouped.items()
    )
    known = _lanes(arms)
    shown = _chosen_lanes(known, lanes)
    _refuse_unknown_lanes(slos, known)
    marks = slo_marks(arms, judged)
    found = [
        difference
        for other in arms[1:]
        for difference in differences(arms[0], other, shown, measures, whole=not metrics)
    ]
    return Comparison(
        arms=arms,
        lanes=tuple(shown),
        measures=measures,
        late_s=late_s,
        slos=judged,
        slos_asked=bool(slos),
        differences=tuple(found),
        marks=marks,
        trade_off=trade_off(arms, known, judged),
        choice=choose(arms, marks, known),
        cautions=tuple(cautions(arms)),
        settings=split([arm.settings for arm in arms]),
    )


def comparison_exit_code(comparison: Comparison) -> int:
    """3 = an invalid run among them. 1 = no arm meets every SLO that was asked for; without one, of two
    arms the second is worse in something. 0 = neither: between many arms, some worse is the point.
    """
    if comparison.invalid:
        return InvalidRunError.exit_code
    if comparison.slos_asked:
        return 0 if comparison.meeting else CriterionFailedError.exit_code
    worse = any(difference.verdict == "worse" for difference in comparison.differences)
    return CriterionFailedError.exit_code if worse and len(comparison.arms) == 2 else 0


def _lanes(arms: Sequence[Arm]) -> list[str]:
    """Of all runs, in the order of the first."""
    return list(dict.fromkeys(lane for arm in arms for run in arm.runs for lane in run.lanes))


def _chosen_lanes(known: Sequence[str], wanted: Sequence[str]) -> list[str]:
    for lane in wanted:
        if lane not in known:
            raise InputError(f"lane {lane!r} is in none of the runs", hint=_their_lanes(known))
    return [lane for lane in known if not wanted or lane in wanted]


def _refuse_unknown_lanes(slos: Sequence[Slo], known: Sequence[str]) -> None:
    for each in slos:
        if each.lane not in known:
            raise InputError(
                f"--slo: lane {each.lane!r} is in none of the runs", hint=_their_lanes(known)
            )


def _their_lanes(known: Sequence[str]) -> str:
    return f"their lanes: {', '.join(known) or 'none'}"
