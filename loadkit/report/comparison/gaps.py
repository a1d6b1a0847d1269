"""The chart of stalls: how long streams stood still, and when."""

from matplotlib.figure import Figure

from loadkit.analysis.comparison import Comparison
from loadkit.report.figures import Chart, clock, draw, lane_colours, legend, log_seconds, shortened
from loadkit.report.panels import draw_gaps

_MOST_ARMS = 10


def gaps_chart(comparison: Comparison) -> Chart | None:
    """One panel a label, its lanes in it; None when no label streamed."""
    known = [
        (arm.label, gaps)
        for arm in comparison.arms
        if not arm.reasons and (gaps := arm.runs[0].gaps)
    ][:_MOST_ARMS]
    if not known:
        return None
    colours = lane_colours(sorted({lane for _, gaps in known for lane in gaps}))

    def paint(figure: Figure) -> None:
        grid = figure.subplots(len(known), sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (label, gaps) in zip(grid, known, strict=True):
            for lane, series in gaps.items():
                draw_gaps(axes, series, lane, colours[lane])
            axes.set_title(shortened(label))
        grid[0].set_yscale("log")
        grid[0].margins(y=0.12)
        log_seconds(grid[0].yaxis)
        legend(grid[0])
        grid[-1].set_xlim(left=0)
        clock(grid[-1].xaxis)
        grid[-1].set_xlabel("time from the start of the run")

    caption = (
        "Pauses between two content chunks of a stream. A bar spans the longest pause of its moment, from "
        "the last chunk before it to the first after it, and its height is how long that was; the thin line "
        "is the median. The first run of each label."
    )
    return draw("gaps", "Where streams stood still", caption, 0.75 + 0.95 * len(known), paint)
