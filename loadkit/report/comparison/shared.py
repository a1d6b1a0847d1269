"""What the charts of a comparison share: a colour for each label."""

from itertools import cycle

from loadkit.analysis.comparison import Comparison

_ARM_COLOURS = (
    "#5b7083", "#2f6fde", "#d97a1e", "#199a86", "#8c56c9", "#c23b5e", "#7a8a1f", "#3aa6c9",
)  # fmt: skip


def arm_colours(comparison: Comparison) -> dict[str, str]:
    return {
        arm.label: colour for arm, colour in zip(comparison.arms, cycle(_ARM_COLOURS), strict=False)
    }
