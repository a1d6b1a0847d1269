"""The charts of a search: the load curve, panel above panel over one axis, and the share that missed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from loadkit.analysis.knee.curve import LoadPoint, Spread, load_curve
from loadkit.analysis.knee.findings import TURN_UP, TURN_UP_SHARE
from loadkit.analysis.knee.result import KneeResult
from loadkit.report.figures import BAD, GOOD, INK, MUTED, SERVER, Chart, draw, legend, log_seconds
from loadkit.report.knee import words

_BLUE, _ORANGE = "#2f6fde", "#d97a1e"
_LEAST_S = 1e-4
_LEAST_SHARE = 3e-4
"""Shares of 0 are drawn here on a logarithmic axis."""
_ORIENTATION_END = 0.97
_LONG_LABEL = 60
_SECOND_AXIS_IN = 0.6
"""Below the first, in inches."""
_MOST_BEYOND = 1.15
"""A step far beyond the saturation would squeeze all the others to the left."""


class _Curve(NamedTuple):
    result: KneeResult
    points: list[LoadPoint]
    end_rps: float
    """Right end of the axis."""


class _Panel(NamedTuple):
    height: float
    paint: Callable[[Axes, _Curve], None]


def charts(result: KneeResult) -> list[Chart]:
    """Every chart that has data, in reading order."""
    points = [point for point in load_curve(result.steps, result.findings) if point.requests]
    if not points:
        return []
    curve = _Curve(result, points, _end_rps(result, points))
    return [_load_curve(curve), _misses(curve)]


def _end_rps(result: KneeResult, points: Sequence[LoadPoint]) -> float:
    known = [result.findings.capacity.high_rps, result.findings.saturation.rps]
    marks = [rps for rps in known if rps is not None]
    fastest_rps = max(point.step.plan.rate_rps for point in points)
    return min(fastest_rps * 1.03, _MOST_BEYOND * max(marks)) if marks else fastest_rps * 1.03


def _load_curve(curve: _Curve) -> Chart:
    panels = _panels(curve.points)
    heights = [panel.height for panel in panels]

    def paint(figure: Figure) -> None:
        grid = figure.subplots(
            len(panels), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        for panel, axes in zip(panels, grid, strict=True):
            _mark(axes, curve.result)
            panel.paint(axes, curve)
            axes.set_xlim(0, curve.end_rps)
        _utilisation_axis(grid[-1], curve.result, heights[-1])
        grid[-1].set_xlabel(_x_label(curve.result))

    beyond = sum(point.step.plan.rate_rps > curve.end_rps for point in curve.points)
    left_out = f" Higher loads ({beyond} of the steps) are in the table only." if beyond else ""
    caption = (
        "One dot for each step; hollow: invalid, not used. The band is the 95 % interval of the capacity "
        f"at the SLO, the dashed line the turn-up.{left_out} Orientation, not fitted: the p99 without load "
        "/ (1 − ρ), as of a single server with random arrivals; many slots turn up later and more steeply."
    )
    return draw("load_curve", "The load curve", caption, sum(heights) + 0.7, paint)


def _panels(points: Sequence[LoadPoint]) -> list[_Panel]:
    """Those that have something to show."""
    steps = [point.step for point in points]
    use = any(step.use.told for step in steps)
    wanted = (
        (True, 1.5, _throughput),
        (True, 1.9, _latency),
        (any(point.queue_wait.p50_s is not None for point in points), 1.4, _queue_wait),
        (any(point.tpot.p50_s is not None for point in points), 1.1, _tpot),
        (any(point.preemptions_per_1000 for point in points), 1.0, _preemptions),
        (use, 1.2, _use),
        (any(step.littles_law is not None for step in steps), 1.2, _in_system),
    )
    return [_Panel(height, paint) for there, height, paint in wanted if there]


def _mark(axes: Axes, result: KneeResult) -> None:
    found, turn = result.findings.capacity, result.findings.turn_up
    if found.rps and found.low_rps and found.high_rps:
        axes.axvspan(found.low_rps, found.high_rps, color=GOOD, alpha=0.14, linewidth=0)
        axes.axvline(found.rps, color=GOOD, linewidth=1)
    if turn.rps:
        axes.axvline(turn.rps, color=SERVER, linewidth=1, linestyle="--")


def _utilisation_axis(axes: Axes, result: KneeResult, height_in: float) -> None:
    full_rps = result.findings.saturation.rps
    if full_rps is None:
        return
    scale = (_divided_by(full_rps), _divided_by(1 / full_rps))
    below = axes.secondary_xaxis(-_SECOND_AXIS_IN / height_in, functions=scale)
    below.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    below.set_xlabel("utilisation ρ = offered / saturation")


def _divided_by(unit: float) -> Callable[[Any], Any]:
    return lambda values: np.asarray(values) / unit


def _x_label(result: KneeResult) -> str:
    return f"offered, requests/s ({words.load(result).rstrip(',')})"


def _dots(
    axes: Axes, curve: _Curve, value: Callable[[LoadPoint], float | None], colour: str, label: str
) -> None:
    """One dot a step where `value` is known."""
    known = [(point, found) for point in curve.points if (found := value(point)) is not None]
    for valid, face in ((True, colour), (False, "none")):
        chosen = [(p.step.plan.rate_rps, v) for p, v in known if p.step.valid is valid]
        if chosen:
            axes.plot(
                *zip(*chosen, strict=True), "o", color=colour, markersize=3.6, markerfacecolor=face,
                linestyle="none", label=label if valid else None,
            )  # fmt: skip


def _throughput(axes: Axes, curve: _Curve) -> None:
    axes.set_title("Done, requests/s")
    axes.plot([0, curve.end_rps], [0, curve.end_rps], color=MUTED, linewidth=0.8, label="offered")
    _dots(axes, curve, lambda p: p.step.completed_rps, INK, "completed")
    _dots(axes, curve, lambda p: p.goodput_rps, GOOD, "goodput: met the SLO")
    full_rps = curve.result.findings.saturation.rps
    if full_rps is not None:
        axes.axhline(full_rps, color=INK, linewidth=0.8, linestyle=":", label="saturation")
    axes.set_ylim(0, curve.end_rps)
    legend(axes)


def _latency(axes: Axes, curve: _Curve) -> None:
    result = curve.result
    axes.set_title(words.metric(result))
    _spread(axes, curve, lambda p: p.latency)
    axes.axhline(result.slo.threshold_s, color=BAD, linewidth=1, linestyle=":", label="SLO")
    base = result.findings.baseline
    if base is not None:
        axes.axhline(
            TURN_UP * base.p99_s, color=SERVER, linewidth=1, linestyle=":",
            label=f"{TURN_UP:g} × p99 without load",
        )  # fmt: skip
        _orientation(axes, curve, base.p99_s)
    _log_axis(axes)
    legend(axes)


def _orientation(axes: Axes, curve: _Curve, base_s: float) -> None:
    full_rps = curve.result.findings.saturation.rps
    if full_rps is None:
        return
    shares = [place / 100 for place in range(int(100 * _ORIENTATION_END) + 1)]
    axes.plot(
        [share * full_rps for share in shares], [base_s / (1 - share) for share in shares],
        color=MUTED, linewidth=0.9, linestyle="-.", label="1 / (1 − ρ), for orientation",
    )  # fmt: skip


def _queue_wait(axes: Axes, curve: _Curve) -> None:
    axes.set_title("Queue wait, as the engine tells it")
    _spread(axes, curve, lambda p: p.queue_wait)
    _log_axis(axes)
    legend(axes)


def _tpot(axes: Axes, curve: _Curve) -> None:
    axes.set_title("TPOT")
    _spread(axes, curve, lambda p: p.tpot)
    _log_axis(axes)
    legend(axes)


def _spread(axes: Axes, curve: _Curve, of: Callable[[LoadPoint], Spread]) -> None:
    _dots(axes, curve, lambda p: _drawn(of(p).p50_s), _BLUE, "p50")
    _dots(axes, curve, lambda p: _drawn(of(p).p99_s), _ORANGE, "p99")


def _drawn(value_s: float | None) -> float | None:
    return None if value_s is None else max(value_s, _LEAST_S)


def _log_axis(axes: Axes) -> None:
    axes.set_yscale("log")
    log_seconds(axes.yaxis)


def _preemptions(axes: Axes, curve: _Curve) -> None:
    axes.set_title("Preemptions per 1,000 requests")
    _dots(axes, curve, lambda p: p.preemptions_per_1000, BAD, "preemptions")
    axes.set_ylim(bottom=0)


def _use(axes: Axes, curve: _Curve) -> None:
    axes.set_title("In use, on average")
    _dots(axes, curve, lambda p: p.step.use.slots, _BLUE, "slots")
    _dots(axes, curve, lambda p: p.step.use.kv, SERVER, "KV cache")
    _dots(axes, curve, lambda p: p.step.use.token_budget, _ORANGE, "token budget of a step")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(0, 1.03)
    legend(axes)


def _in_system(axes: Axes, curve: _Curve) -> None:
    axes.set_title("Requests in the system, on average")
    _dots(
        axes,
        curve,
        lambda p: p.step.littles_law,
        _ORANGE,
        "Little's law: arrival rate × time in it",
    )
    told = [
        (p.step.plan.rate_rps, p.step.in_system)
        for p in curve.points
        if p.step.in_system is not None
    ]
    if told:
        axes.plot(
            *zip(*told, strict=True), "x", color=INK, markersize=4.5, markeredgewidth=0.9,
            label="running + waiting, as the engine tells",
        )  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    legend(axes, longest=_LONG_LABEL)


def _misses(curve: _Curve) -> Chart:
    result = curve.result
    allowed = 1 - result.slo.quantile

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        _mark(axes, result)
        _dots(
            axes,
            curve,
            lambda p: max(p.missed / p.requests, _LEAST_SHARE),
            INK,
            "share that missed",
        )
        axes.axhline(
            allowed, color=BAD, linestyle=":", linewidth=1, label=f"allowed: {allowed:.2g}"
        )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(_share))
        axes.set_xlim(0, curve.end_rps)
        axes.set_xlabel(_x_label(result))
        _utilisation_axis(axes, result, 2.5)
        legend(axes)

    caption = (
        "What the capacity is estimated from. Close to the knee one minute sees no busy period and the next "
        "one sees a long one, so single steps scatter widely and many show no miss at all (drawn at the "
        f"bottom); the capacity is where the long-run share is {allowed:.2g}, from all steps together. "
        f"The turn-up is found in the same way, from the requests beyond it ({TURN_UP_SHARE:.0%})."
    )
    return draw("misses", "How many requests missed the SLO", caption, 2.5, paint)


def _share(value: float, _: int | None = None) -> str:
    return "0" if value <= _LEAST_SHARE * 1.01 else f"{value * 100:g} %"
