"""The charts of one run. Each shows what is known; one that has nothing to show is left out."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from loadkit.analysis import METRICS, RunSummary
from loadkit.report.figures import (
    BAD,
    MUTED,
    SECONDS,
    Chart,
    draw,
    legend,
    log_seconds,
    shortened,
)
from loadkit.report.panels import charted_lanes, panels_of

_PART_COLOURS = {
    "send lag": "#cf3d4a",
    "connect": "#d98e3f",
    "queue wait": "#8c56c9",
    "prefill": "#2f6fde",
    "to first token": "#5b8def",
    "network and rest": "#9aa5b1",
    "decode": "#199a86",
    "end of stream": "#c9ced6",
}

_LEAST_S = 1e-4
"""What is shorter, 0 included, is drawn here on a logarithmic axis."""


def charts(summary: RunSummary) -> list[Chart]:
    """Every chart that has data, in reading order."""
    if not summary.offered:
        return []
    makers = (_timeline, _distributions, _time_parts, _deadlines)
    return [chart for make in makers if (chart := make(summary))]


def _timeline(summary: RunSummary) -> Chart:
    panels = panels_of(summary)
    heights = [panel.height for panel in panels]

    def paint(figure: Figure) -> None:
        grid = figure.subplots(
            len(panels), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        for panel, axes in zip(panels, grid[:, 0], strict=True):
            panel.paint(axes)
            axes.set_xlim(0, summary.timeline.edges_s[-1])
        grid[-1, 0].set_xlabel("seconds from the start of the run")

    caption = (
        "One time axis for all. A rate of completions that stays under the offered one, with waiting "
        "requests growing, is a server past its capacity. Gaps in a server line are scrapes that failed."
    )
    return draw("timeline", "What happened, over time", caption, sum(heights) + 0.3, paint)


def _distributions(summary: RunSummary) -> Chart | None:
    known = [name for name, curves in summary.distributions.items() if curves]
    if not known:
        return None
    rows = -(-len(known) // 2)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(rows, 2, squeeze=False).ravel()
        for name, axes in zip(known, grid, strict=False):
            _curves(axes, summary, name)
        for axes in grid[len(known) :]:
            axes.set_visible(False)

    caption = (
        "Share of the requests that ended ok within the time on the axis (logarithmic). Dotted lines "
        "are SLO thresholds in the colour of their lane."
    )
    return draw("distributions", "How the latencies spread", caption, 2.1 * rows, paint)


def _curves(axes: Axes, summary: RunSummary, name: str) -> None:
    colours = charted_lanes(summary)
    for lane in (lane for lane in colours if lane in summary.distributions[name]):
        values_s = summary.distributions[name][lane]
        shares = np.arange(1, len(values_s) + 1) / len(values_s)
        axes.plot(
            np.maximum(values_s, _LEAST_S),
            shares,
            color=colours[lane],
            label=lane,
            drawstyle="steps-post",
        )
    for result in summary.slos:
        if result.slo.metric == name:
            colour = colours.get(result.slo.lane, MUTED)
            axes.axvline(result.slo.threshold_s, color=colour, linestyle=":", linewidth=1)
    axes.set_xscale("log")
    log_seconds(axes.xaxis)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylim(0, 1.02)
    axes.set_title(_curve_title(summary, name))
    legend(axes)


def _curve_title(summary: RunSummary, name: str) -> str:
    if name != "queue_wait":
        return METRICS[name].title
    sources = sorted({lane.queue_wait_source for lane in summary.lanes if lane.queue_wait_source})
    return f"{METRICS[name].title} (source: {', '.join(sources)})"


def _time_parts(summary: RunSummary) -> Chart | None:
    charted = charted_lanes(summary)
    lanes = [lane for lane in summary.lanes if lane.time_parts and lane.lane in charted]
    if not lanes:
        return None
    names = [name for name in _PART_COLOURS if any(name in lane.time_parts for lane in lanes)]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        left = np.zeros(len(lanes))
        for name in names:
            widths = np.array([lane.time_parts.get(name, 0.0) for lane in lanes])
            axes.barh(
                range(len(lanes)),
                widths,
                left=left,
                height=0.55,
                color=_PART_COLOURS[name],
                label=name,
            )
            left += widths
        axes.set_yticks(range(len(lanes)), [shortened(lane.lane) for lane in lanes])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_formatter(SECONDS)
        legend(axes, columns=len(names))

    caption = (
        "Mean life of a request that ended ok, from the instant it was due. Stalls by preemption are "
        "inside prefill and decode."
    )
    return draw("time_parts", "Where the time went", caption, 0.75 + 0.36 * len(lanes), paint)


def _deadlines(summary: RunSummary) -> Chart | None:
    colours = charted_lanes(summary)
    lanes = [lane.lane for lane in summary.lanes if lane.deadlines and lane.lane in colours]
    if not lanes:
        return None
    line = summary.timeline

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for lane in lanes:
            _progress(axes, summary, lane, colours[lane])
        axes.set_xlim(0, line.edges_s[-1])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("seconds from the start of the run")
        legend(axes)

    caption = (
        "Cumulative numbers of requests that have a deadline. Where deadlines passed rise above done in "
        "time, work was late; deadlines beyond the end of the run do not appear."
    )
    return draw("deadlines", "Work done by its deadline", caption, 1.8, paint)


def _progress(axes: Axes, summary: RunSummary, lane: str, colour: str) -> None:
    ends_s, series = summary.timeline.edges_s[1:], summary.timeline.lanes[lane]
    dashes = (0, (3, 1.5))
    axes.plot(ends_s, series.due, color=MUTED, linewidth=1, label=f"{lane} offered")
    axes.plot(ends_s, series.in_time, color=colour, label=f"{lane} done in time")
    axes.plot(
        ends_s,
        series.deadlines,
        color=BAD,
        linestyle=dashes,
        linewidth=1,
        label=f"{lane} deadlines",
    )
