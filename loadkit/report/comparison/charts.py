"""The charts of a comparison: the trade-off, the tail it is about, and the slots over the day."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from loadkit.analysis.comparison import Arm, Comparison, Occupancy, TradeOff
from loadkit.model import Slo
from loadkit.report import numbers
from loadkit.report.comparison.gaps import gaps_chart
from loadkit.report.comparison.shared import arm_colours
from loadkit.report.figures import (
    BAD,
    GOOD,
    INK,
    MUTED,
    SECONDS,
    Chart,
    clock,
    draw,
    lane_colours,
    legend,
    log_seconds,
    shortened,
)

_MOST_OCCUPANCIES = 10
_LONGEST_LABEL = 48
"""A label names what was set otherwise at its end."""
_MANY_COLUMNS, _FEW_COLUMNS, _LONG = 5, 3, 24
_LETTER_PT, _LINE_PT = 4.8, 8.0
"""About the size of a label's letters."""
_LABEL_OFFSETS = ((7, -11), (-7, 5), (7, 5), (-7, -12), (7, -22), (-7, 16))


def charts(comparison: Comparison) -> list[Chart]:
    """Every chart that has data, in reading order."""
    makers = (_trade_off, _tail, gaps_chart, _occupancy)
    return [chart for make in makers if (chart := make(comparison))]


def _trade_off(comparison: Comparison) -> Chart | None:
    found = comparison.trade_off
    if found is None or len(found.standings) < 2:
        return None

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        _front(axes, found)
        _points(axes, found, arm_colours(comparison))
        _thresholds(axes, comparison, found)
        _tail_scale(axes, found)
        axes.margins(x=0.14)
        if min(s.work_per_h for s in found.standings) < 0.7 * axes.get_xlim()[1]:
            axes.set_xlim(left=0)
        axes.set_xlabel(f"{found.work_lane}: items an hour, more is better →")
        axes.set_title(f"{found.tail_lane} {found.tail.title}: shorter is better ↓")
        figure.draw_without_rendering()  # so that it is known where the points come to lie
        _name_points(axes, found)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        legend(axes)

    caption = (
        "One large point for each label, its runs small beside it. The line is the Pareto front: what lies "
        "above or left of it is matched by another in both and beaten in one. Down and right is better."
        + " Labels on other work stand beside the front: their items are other items."
        * bool(comparison.on_other_work)
    )
    return draw("trade_off", "What the short wait costs", caption, 3.6, paint)


def _points(axes: Axes, found: TradeOff, colours: dict[str, str]) -> None:
    ordered = sorted(found.standings, key=lambda s: (s.work_per_h, s.tail_s))
    for one in ordered:
        colour = colours[one.label]
        if len(one.runs) > 1:
            tails, work = zip(*one.runs, strict=True)
            axes.plot(work, tails, "o", color=colour, alpha=0.4, markersize=3.5, markeredgewidth=0)
        axes.plot(
            one.work_per_h, one.tail_s, "o", color=colour, markersize=8.5,
            markerfacecolor=colour if one.on_front else "none", markeredgewidth=1.6,
        )  # fmt: skip


def _name_points(axes: Axes, found: TradeOff) -> None:
    """A label beside each point, where it hides neither a point nor another label if it can."""
    dots = {s.label: axes.transData.transform((s.work_per_h, s.tail_s)) for s in found.standings}
    scale = 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    taken = [_Box(x * scale - 5, y * scale - 5, 10, 10) for x, y in dots.values()]
    right = axes.get_window_extent().x1 * scale
    for one in found.standings:
        text = shortened(one.label, _LONGEST_LABEL)
        x, y = (value * scale for value in dots[one.label])
        width = _LETTER_PT * len(text)
        places = [
            (_Box(x + dx - (width if dx < 0 else 0), y + dy, width, _LINE_PT), (dx, dy))
            for dx, dy in _LABEL_OFFSETS
        ]
        inside = [place for place in places if 0 <= place[0].x <= right - width] or places
        free = [place for place in inside if not any(place[0].meets(box) for box in taken)]
        box, offset = (free or inside)[0]
        taken.append(box)
        axes.annotate(
            text, (one.work_per_h, one.tail_s), color=INK, fontsize=8, xytext=offset,
            textcoords="offset points", horizontalalignment="right" if offset[0] < 0 else "left",
        )  # fmt: skip


class _Box(NamedTuple):
    """In points, from its lower left corner."""

    x: float
    y: float
    width: float
    height: float

    def meets(self, other: "_Box") -> bool:
        beside = self.x + self.width < other.x or other.x + other.width < self.x
        apart = self.y + self.height < other.y or other.y + other.height < self.y
        return not beside and not apart


def _front(axes: Axes, found: TradeOff) -> None:
    on_front = sorted((s.work_per_h, s.tail_s) for s in found.standings if s.on_front)
    work, tails = zip(*on_front, strict=True)
    axes.plot(work, tails, color=GOOD, linewidth=1.2, alpha=0.8, drawstyle="steps-post", zorder=1,
              label="Pareto front")  # fmt: skip


def _slo_label(slo: Slo) -> str:
    return f"SLO p{slo.quantile * 100:g} ≤ {numbers.seconds(slo.threshold_s)}"


def _thresholds(axes: Axes, comparison: Comparison, found: TradeOff) -> None:
    for slo in comparison.slos:
        if (slo.lane, slo.metric, slo.quantile) == (found.tail_lane, *found.tail.key):
            axes.axhline(
                slo.threshold_s, color=BAD, linewidth=1, linestyle=":", label=_slo_label(slo)
            )


def _tail_scale(axes: Axes, found: TradeOff) -> None:
    """Logarithmic, with room for a wait of exactly 0."""
    tails = [tail_s for s in found.standings for tail_s, _ in (*s.runs, (s.tail_s, 0.0))]
    positive = [tail_s for tail_s in tails if tail_s > 0]
    if not positive:
        return
    if min(tails) > 0:
        axes.set_yscale("log")
        log_seconds(axes.yaxis)
        return
    least_s = min(positive)
    axes.set_yscale("symlog", linthresh=least_s, linscale=0.5)
    decades = LogLocator().tick_values(least_s, max(tails))
    axes.set_yticks([0.0, *(t for t in decades if least_s <= t <= max(tails) * 1.5)])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(SECONDS)
    axes.set_ylim(-0.9 * least_s, max(tails) * 3)


def _tail(comparison: Comparison) -> Chart | None:
    found = comparison.trade_off
    if found is None:
        return None
    place = (found.tail_lane, found.tail.metric)
    arms = [
        arm for arm in comparison.arms if not arm.reasons and len(arm.runs[0].curves.get(place, ()))
    ]
    if not any((arm.runs[0].curves[place] > 0).any() for arm in arms):
        return None
    colours = arm_colours(comparison)

    waits_s = np.concatenate([arm.runs[0].curves[place] for arm in arms])
    least_s = float(waits_s[waits_s > 0].min()) / 2

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for arm in arms:
            _exceedance(axes, arm, place, colours[arm.label], least_s)
        for slo in comparison.slos:
            if (slo.lane, slo.metric) == place:
                axes.plot(
                    [slo.threshold_s], [1 - slo.quantile], "v", color=BAD, markersize=6,
                    label=_slo_label(slo),
                )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(left=least_s)
        log_seconds(axes.xaxis)
        axes.set_yscale("log")
        axes.set_ylim(top=1.15)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g}%"))
        axes.set_xlabel(f"{found.tail_lane}: {found.tail.title.rpartition(' ')[0]}")
        _title_over_legend(axes, "Share of requests that wait longer")

    caption = (
        "Both axes are logarithmic; 1% on the left axis is where p99 is read. A line that ends early has no "
        "longer waits; what starts at the left edge did not wait. The first run of each label."
    )
    return draw("tail", "The whole tail", caption, 2.9, paint)


def _title_over_legend(axes: Axes, title: str) -> None:
    labels = axes.get_legend_handles_labels()[1]
    columns = _FEW_COLUMNS if max(map(len, labels)) > _LONG else _MANY_COLUMNS
    legend(axes, columns, _LONGEST_LABEL)
    rows = -(-len(labels) // columns)
    axes.set_title(title, pad=6 + 12 * rows * (rows > 1))


def _exceedance(axes: Axes, arm: Arm, place: tuple[str, str], colour: str, least_s: float) -> None:
    """Without the last step to 0, which has no place on a logarithmic axis."""
    values_s = arm.runs[0].curves[place]
    shares = 1 - np.arange(1, len(values_s) + 1) / len(values_s)
    kept = (shares > 0) & (values_s > 0)
    none = "" if (values_s > 0).any() else " (no waits)"
    start = [least_s], [float((values_s > 0).mean())]
    instants_s, longer = (
        np.concatenate([first, rest])
        for first, rest in zip(start, (values_s[kept], shares[kept]), strict=True)
    )
    axes.plot(instants_s, longer, color=colour, label=f"{arm.label}{none}", drawstyle="steps-post")


def _occupancy(comparison: Comparison) -> Chart | None:
    known = [
        (arm.label, used)
        for arm in comparison.arms
        if not arm.reasons and (used := arm.runs[0].occupancy)
    ][:_MOST_OCCUPANCIES]
    if not known:
        return None
    lanes = lane_colours(sorted({lane for _, used in known for lane in used.running if lane}))
    top = max(used.slots or _peak(used) for _, used in known)
    height = 0.62 * len(known) + 0.75

    def paint(figure: Figure) -> None:
        grid = figure.subplots(len(known), sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (label, used) in zip(grid, known, strict=True):
            _running(axes, used, lanes)
            axes.set_title(shortened(label, _LONGEST_LABEL))
            axes.set_ylim(0, top * 1.06)
        legend(grid[0], of=tuple(grid))
        grid[-1].set_xlim(0, max(used.edges_s[-1] for _, used in known))
        clock(grid[-1].xaxis)
        grid[-1].set_xlabel("time from the start of the run")

    caption = (
        "Requests running at once, by lane where that is known; the dotted line is the number of slots. "
        f"White under it is headroom. The first run of each label.{_worked_out(known)}"
    )
    return draw("occupancy", "Slots over the day", caption, height, paint)


def _worked_out(known: list[tuple[str, Occupancy]]) -> str:
    """Which labels told no samples of what was running."""
    labels = [label for label, used in known if used.from_rows]
    if not labels:
        return ""
    of = "" if len(labels) == len(known) else f" of {', '.join(map(shortened, labels))}"
    return f" Worked out from the waits and ends{of}, where nobody told what was running."


def _peak(used: Occupancy) -> float:
    return float(np.nanmax(np.sum(list(used.running.values()), axis=0), initial=1.0))


def _running(axes: Axes, used: Occupancy, colours: dict[str, str]) -> None:
    base = np.zeros(len(used.edges_s) - 1)
    for lane in sorted(used.running, key=lambda name: (name != "interactive", name)):
        upper = base + used.running[lane]
        axes.stairs(
            upper, used.edges_s, baseline=base, fill=True, color=colours.get(lane, MUTED),
            alpha=0.75, linewidth=0, label=lane or "running",
        )  # fmt: skip
        base = np.nan_to_num(upper)
    if used.slots:
        axes.axhline(used.slots, color=INK, linewidth=0.8, linestyle=":")
