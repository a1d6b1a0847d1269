"""The chart of stalls: how long streams paused, and when."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadkit.analysis.comparison import Arm, Comparison
from loadkit.report.comparison.shared import arm_colours, clock
from loadkit.report.figures import Chart, draw, legend, log_seconds, shortened

_MOST_LANES = 3


def gaps_chart(comparison: Comparison) -> Chart | None:
    """One panel a lane that streamed, every label in it; None when none did."""
    arms = [arm for arm in comparison.arms if not arm.reasons]
    lanes = [lane for lane in comparison.lanes if any(lane in arm.runs[0].gaps for arm in arms)]
    lanes = lanes[:_MOST_LANES]
    if not lanes:
        return None

    def paint(figure: Figure) -> None:
        grid = figure.subplots(len(lanes), sharex=True, squeeze=False)[:, 0]
        for axes, lane in zip(grid, lanes, strict=True):
            for arm in arms:
                _arm(axes, arm, lane, arm_colours(comparison)[arm.label])
            axes.set_yscale("log")
            log_seconds(axes.yaxis)
            axes.set_title(shortened(lane))
            legend(axes, columns=5)
        grid[-1].set_xlim(left=0)
        clock(grid[-1].xaxis)
        grid[-1].set_xlabel("time from the start of the run")

    caption = (
        "Pauses between two content chunks of a stream, by the instant at which they ended. Dots: the "
        "longest of each moment; thin lines: the median. A dot far above its line is a moment at which "
        "streams stood still. The first run of each label."
    )
    return draw("gaps", "Where streams stood still", caption, 0.6 + 1.9 * len(lanes), paint)


def _arm(axes: Axes, arm: Arm, lane: str, colour: str) -> None:
    if lane not in arm.runs[0].gaps:
        return
    series = arm.runs[0].gaps[lane]
    middle_s = (series.edges_s[:-1] + series.edges_s[1:]) / 2
    axes.plot(middle_s, series.p50_s, color=colour, linewidth=0.9, alpha=0.6)
    axes.plot(middle_s, series.longest_s, ".", color=colour, markersize=4, label=arm.label)
