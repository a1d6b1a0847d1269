"""The tables of a comparison, as text cells: HTML, Markdown and the terminal print the same ones."""

from loadkit.analysis import slo_text
from loadkit.analysis.comparison import (
    MEASURES,
    WHOLE_RUN,
    Arm,
    Comparison,
    Difference,
    Measure,
)
from loadkit.analysis.comparison.settings import text, title
from loadkit.report import numbers
from loadkit.report.comparison import forms
from loadkit.report.tables import Table

_NOT_AT_A_GLANCE = {("tpot", 0.5), ("itl", 0.99), ("e2e", 0.5)}
_NOT_IN_A_TERMINAL = {
    *_NOT_AT_A_GLANCE, ("queue_wait", 1.0), ("ttft", 0.5), ("stall", 0.99),
    ("recomputed_tokens", None),
}  # fmt: skip
_NAMED_WITH_THE_RUN = ("engine", "version", "model")
MARKS_NOTE = (
    "✓ better than {baseline}, ✗ worse, = no difference shown, ? inconclusive, "
    "without a mark: not judged. Each value is the mean over the runs of its label."
)


def lane(comparison: Comparison, name: str, *, narrow: bool = False) -> Table:
    """One row per arm, one column per measure that any of them knows; fewer for a terminal."""
    left_out = _NOT_IN_A_TERMINAL if narrow else _NOT_AT_A_GLANCE
    shown = [
        measure
        for measure in comparison.measures
        if measure.of
        and (comparison.measures != MEASURES or measure.key not in left_out)
        and _told(comparison, name, measure)
    ]
    rows = tuple((arm.label, *_cells(comparison, arm, name, shown)) for arm in comparison.arms)
    columns = ("<run", *(_title(comparison, measure) for measure in shown))
    note = MARKS_NOTE.format(baseline=comparison.baseline.label)
    return Table(f"Lane {name}", columns, rows, note)


def _told(comparison: Comparison, lane_name: str | None, measure: Measure) -> bool:
    """Known to some arm, and not everywhere 0 where 0 tells nothing."""
    values = [arm.mean((lane_name, measure.key)) for arm in comparison.arms]
    known = [value for value in values if value is not None]
    quiet = measure.metric in ("preemptions", "recomputed_tokens") and not any(known)
    return bool(known) and not quiet


def _title(comparison: Comparison, measure: Measure) -> str:
    if measure.metric == "late_share":
        return f"wait > {numbers.seconds(comparison.late_s)}".replace(".00", "")
    return measure.title


def _cells(
    comparison: Comparison, arm: Arm, lane_name: str | None, shown: list[Measure]
) -> list[str]:
    return [
        f"{forms.value(arm.mean((lane_name, measure.key)), measure.unit)}"
        f"{_mark(comparison, arm, lane_name, measure)}"
        for measure in shown
    ]


def _mark(comparison: Comparison, arm: Arm, lane_name: str | None, measure: Measure) -> str:
    found = next(
        (
            each
            for each in comparison.differences
            if (each.arm, each.lane, each.measure.key) == (arm.label, lane_name, measure.key)
            and each.measure.of is measure.of
        ),
        None,
    )
    mark = forms.MARKS.get(found.verdict) if found else None
    return f"\N{NO-BREAK SPACE}{mark}" if mark else ""


def whole(comparison: Comparison) -> Table | None:
    """None where nothing of it is known, or something else was asked for."""
    shown = [measure for measure in WHOLE_RUN if _told(comparison, None, measure)]
    if not shown or comparison.measures != MEASURES:
        return None
    rows = tuple((arm.label, *_cells(comparison, arm, None, shown)) for arm in comparison.arms)
    note = "; ".join(f"{measure.title}: {measure.note}" for measure in shown) + "."
    return Table("The whole server", ("<run", *(measure.title for measure in shown)), rows, note)


def slos(comparison: Comparison) -> Table | None:
    if not comparison.marks:
        return None
    verdicts = {True: "met", False: "NOT met", None: "cannot be told"}
    rows = tuple(
        (
            slo_text(mark.slo),
            mark.label,
            verdicts[mark.met],
            f"{sum(result.met is True for result in mark.results)} of {len(mark.results)}",
            _range([result.value_s for result in mark.results], "s"),
            _range([result.within_share for result in mark.results], "share"),
        )
        for mark in comparison.marks
    )
    note = "Met = in every run of the label. A request without an answer counts as outside."
    columns = ("<SLO", "<run", "<verdict", "runs that met it", "measured", "within")
    return Table("SLOs", columns, rows, note)


def _range(values: list[float | None], unit: str) -> str:
    known = sorted(value for value in values if value is not None)
    if not known:
        return numbers.UNKNOWN
    form = numbers.seconds if unit == "s" else numbers.share
    low, high = form(known[0]), form(known[-1])
    return low if low == high else f"{low} to {high}"


def differences(comparison: Comparison, arm: Arm) -> Table:
    """Everything that was compared of one arm with the first."""
    rows = tuple(
        _difference(comparison, each) for each in comparison.differences if each.arm == arm.label
    )
    columns = (
        "<lane", "<measure", comparison.baseline.label, arm.label, "change", "95 % interval",
        "<verdict", "<why",
    )  # fmt: skip
    return Table(f"{arm.label} against {comparison.baseline.label}", columns, rows)


def _difference(comparison: Comparison, found: Difference) -> tuple[str, ...]:
    unit = found.measure.unit
    return (
        found.lane or "whole run",
        _title(comparison, found.measure),
        forms.value(found.a, unit),
        forms.value(found.b, unit),
        forms.change(found.change, found),
        forms.interval(found),
        found.verdict,
        found.why,
    )


def settings(comparison: Comparison) -> Table | None:
    """What was set otherwise in one label than in another; None where only the policies differ."""
    keys = comparison.settings.differing
    if not keys:
        return None
    rows = tuple(
        (
            arm.label,
            *(
                text(key, arm.settings[key]) if key in arm.settings else numbers.UNKNOWN
                for key in keys
            ),
        )
        for arm in comparison.arms
    )
    shared = shared_settings(comparison)
    note = f"The same in all: {shared}." if shared else ""
    return Table("What was set", ("<run", *(f"<{title(key)}" for key in keys)), rows, note)


def shared_settings(comparison: Comparison) -> str:
    """`slots 64, eviction cost 15 s, tick 1 s`; empty where no setting is known to all."""
    shared = comparison.settings.shared
    return ", ".join(
        f"{title(key)} {text(key, value)}"
        for key, value in shared.items()
        if key not in _NAMED_WITH_THE_RUN
    )


def compared(comparison: Comparison) -> Table:
    """What each label stands for."""
    rows = tuple(
        (
            arm.label,
            str(len(arm.runs)),
            "simulated" if arm.simulated else "live",
            "INVALID" if arm.reasons else "valid",
            _served(arm),
            ", ".join(str(run.path) for run in arm.runs),
        )
        for arm in comparison.arms
    )
    columns = ("<run", "runs", "<source", "<state", "<engine", "<found")
    return Table("What was compared", columns, rows)


def _served(arm: Arm) -> str:
    target = arm.runs[0].manifest.target
    capacity = target.get("capacity")
    slots = capacity.get("max_num_seqs") if isinstance(capacity, dict) else None
    parts = [str(target[key]) for key in ("engine", "version", "model") if target.get(key)]
    return ", ".join([*parts, *([f"{slots:g} slots"] if isinstance(slots, int | float) else [])])
