"""Panels of the timeline: one question each, all on the same time axis."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from loadkit.analysis import GapSeries, LaneSeries, RunSummary
from loadkit.report import numbers
from loadkit.report.figures import (
    BAD,
    GOOD,
    INK,
    MUTED,
    SERVER,
    SERVER_TOO,
    lane_colours,
    legend,
    log_seconds,
)


class Panel(NamedTuple):
    height: float
    paint: Callable[[Axes], None]


MOST_LANES = 7


def charted_lanes(summary: RunSummary) -> dict[str, str]:
    """Lane → colour; of very many lanes the largest, because more lines tell nothing."""
    colours = lane_colours([lane.lane for lane in summary.lanes])
    largest = sorted(summary.lanes, key=lambda lane: -lane.offered)[:MOST_LANES]
    return {name: colour for name, colour in colours.items() if name in {la.lane for la in largest}}


def panels_of(summary: RunSummary) -> list[Panel]:
    """Those that have something to show."""
    line, server = summary.timeline, summary.timeline.server
    answered = any(len(series.points) for series in line.lanes.values())
    wanted = (
        (True, 1.25, _rates),
        (answered, 1.45, _ttft),
        (bool(line.gaps), 1.25, _gaps),
        (True, 1.25, _load),
        ("kv_usage" in server, 0.8, _kv_use),
        ("preemptions_per_s" in server, 0.8, _preemptions),
    )
    return [Panel(height, _with(paint, summary)) for there, height, paint in wanted if there]


def _with(paint: Callable[[Axes, RunSummary], None], summary: RunSummary) -> Callable[[Axes], None]:
    return lambda axes: paint(axes, summary)


def _rates(axes: Axes, summary: RunSummary) -> None:
    line = summary.timeline
    axes.set_title(
        f"Offered against achieved, requests/s (bins of {numbers.seconds(line.width_s)})"
    )
    axes.stairs(line.offered_rps, line.edges_s, fill=True, color=MUTED, alpha=0.22, label="offered")
    axes.stairs(line.sent_rps, line.edges_s, color=INK, linewidth=0.9, label="sent")
    axes.stairs(line.completed_rps, line.edges_s, color=GOOD, linewidth=1.5, label="completed")
    if line.failed_rps.any():
        axes.stairs(line.failed_rps, line.edges_s, color=BAD, linewidth=1.2, label="not ok")
    axes.set_ylim(bottom=0)
    legend(axes)


def _ttft(axes: Axes, summary: RunSummary) -> None:
    axes.set_title("TTFT by due instant (line p50, dashed p99)")
    for name, colour in charted_lanes(summary).items():
        _ttft_of_lane(axes, summary, summary.timeline.lanes[name], name, colour)
    axes.set_yscale("log")
    log_seconds(axes.yaxis)
    legend(axes)


def _ttft_of_lane(
    axes: Axes, summary: RunSummary, series: LaneSeries, name: str, colour: str
) -> None:
    edges_s = summary.timeline.edges_s
    middle_s = (edges_s[:-1] + edges_s[1:]) / 2
    axes.plot(
        series.points[:, 0], series.points[:, 1], ".", color=colour, alpha=0.35, markersize=2.5,
        markeredgewidth=0, rasterized=True,
    )  # fmt: skip
    axes.plot(middle_s, series.ttft_p50_s, ".-", markersize=3, color=colour, label=name)
    axes.plot(middle_s, series.ttft_p99_s, color=colour, linestyle=(0, (3, 1.5)), linewidth=1)
    for result in summary.slos:
        if result.slo.lane == name and result.slo.metric == "ttft":
            axes.axhline(result.slo.threshold_s, color=colour, linewidth=0.8, linestyle=":")


def _gaps(axes: Axes, summary: RunSummary) -> None:
    axes.set_title(
        "Gaps between chunks (line p50; a bar spans the longest, at the height of its length)"
    )
    for name, colour in charted_lanes(summary).items():
        if name in summary.timeline.gaps:
            draw_gaps(axes, summary.timeline.gaps[name], name, colour)
    axes.set_yscale("log")
    axes.margins(y=0.12)
    log_seconds(axes.yaxis)
    legend(axes)


def draw_gaps(axes: Axes, series: GapSeries, name: str, colour: str) -> None:
    """The median as a line and, of each bin, the longest pause from its beginning to its end."""
    middle_s = (series.edges_s[:-1] + series.edges_s[1:]) / 2
    axes.plot(middle_s, series.p50_s, color=colour, linewidth=0.8, alpha=0.7, label=name)
    axes.hlines(
        series.longest_s, series.longest_ended_s - series.longest_s, series.longest_ended_s,
        color=colour, linewidth=2.2, capstyle="round",
    )  # fmt: skip


def _load(axes: Axes, summary: RunSummary) -> None:
    line = summary.timeline
    axes.set_title("Requests in the system")
    axes.plot(*line.in_flight, color=INK, linewidth=1, label="in flight (client)")
    for name, colour in (("running", SERVER), ("waiting", BAD)):
        if name in line.server:
            axes.plot(*line.server[name], color=colour, linewidth=1.2, label=f"{name} (server)")
    axes.set_ylim(bottom=0)
    legend(axes)


def _kv_use(axes: Axes, summary: RunSummary) -> None:
    instants_s, used = summary.timeline.server["kv_usage"]
    axes.set_title("KV cache in use")
    axes.fill_between(instants_s, used, color=SERVER_TOO, alpha=0.35, linewidth=0)
    axes.plot(instants_s, used, color=SERVER, linewidth=1)
    axes.set_ylim(0, 1.05)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _preemptions(axes: Axes, summary: RunSummary) -> None:
    instants_s, per_s = summary.timeline.server["preemptions_per_s"]
    axes.set_title("Preemptions per second")
    axes.fill_between(instants_s, per_s, step="pre", color=BAD, alpha=0.3, linewidth=0)
    axes.plot(instants_s, per_s, drawstyle="steps-pre", color=BAD, linewidth=1)
    axes.set_ylim(0, max(1.0, float(np.nanmax(per_s, initial=0.0)) * 1.1))
