"""What the charts of a comparison share: a colour for each label, and an axis of hours or seconds."""

from itertools import cycle

from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MultipleLocator

from loadkit.analysis.comparison import Comparison

_ARM_COLOURS = (
    "#5b7083", "#2f6fde", "#d97a1e", "#199a86", "#8c56c9", "#c23b5e", "#7a8a1f", "#3aa6c9",
)  # fmt: skip


def arm_colours(comparison: Comparison) -> dict[str, str]:
    return {
        arm.label: colour for arm, colour in zip(comparison.arms, cycle(_ARM_COLOURS), strict=False)
    }


_CLOCK = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_STEPS = (1, 2, 3, 5, 6, 10, 12, 15, 20, 30, 60, 120)
_MOST_TICKS = 12


def clock(axis: Axis) -> None:
    """Whole numbers of the largest unit that gives enough ticks."""
    end_s = axis.get_view_interval()[1]
    unit_s, unit = next((u for u in _CLOCK if end_s >= 3 * u[0]), _CLOCK[-1])
    step = next((n for n in _STEPS if end_s / (n * unit_s) <= _MOST_TICKS), None)
    if step:
        axis.set_major_locator(MultipleLocator(step * unit_s))
    axis.set_major_formatter(FuncFormatter(lambda value_s, _: f"{value_s / unit_s:g} {unit}"))
