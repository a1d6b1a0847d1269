"""How a chart looks and how it leaves: SVG that follows the page's colours, PNG for everything else.

Uses matplotlib's objects, never pyplot: no global figure, no window, no backend to choose.
"""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullLocator

from loadkit.report.svg import for_a_page

INK, MUTED, RULE = "#1c2128", "#66707c", "#d9dde3"
_PAGE_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)"}
_LANE_COLOURS = {"interactive": "#2f6fde", "batch": "#d97a1e"}
_OTHER_COLOURS = ("#199a86", "#8c56c9", "#c23b5e", "#7a8a1f", "#5b7083")
GOOD, BAD, SERVER, SERVER_TOO = "#199a86", "#cf3d4a", "#8c56c9", "#b9a1dc"
WIDTH_IN = 10.4

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 7.5,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.edgecolor": RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "text.color": INK,
    "text.parse_math": False,  # a lane may be called `$x$`
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


class Chart(NamedTuple):
    """A drawn chart. `svg` holds only what this room drew, so it may stand in a page unescaped."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


def lane_colours(lanes: Sequence[str]) -> dict[str, str]:
    """The same lane has the same colour in every chart and table."""
    others = iter(_OTHER_COLOURS * (1 + len(lanes) // len(_OTHER_COLOURS)))
    return {lane: _LANE_COLOURS.get(lane) or next(others) for lane in lanes}


def draw(
    name: str, title: str, caption: str, height_in: float, paint: Callable[[Figure], None]
) -> Chart:
    """Run `paint` on a fresh figure in our style and render it twice."""
    with _our_style(name):
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        paint(figure)
        figure.draw_without_rendering()  # lay out once, not once per format
        figure.set_layout_engine("none")
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
        figure.savefig(png, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    return Chart(name, title, caption, for_a_page(svg.getvalue(), _PAGE_COLOURS), png.getvalue())


_LONGEST_LABEL = 28
_LEAST_SPAN = 4.0
"""Ratio of the ends of a logarithmic axis."""


def legend(
    axes: Axes, columns: int = 7, longest: int = _LONGEST_LABEL, of: Sequence[Axes] = ()
) -> None:
    """Above the plot at the right, so that it never hides data; of all the axes in `of`, each label once."""
    known = dict[str, Any]()
    for one in of or (axes,):
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    if known:
        axes.legend(
            known.values(), [shortened(label, longest) for label in known], loc="lower right",
            bbox_to_anchor=(1, 1.0), ncols=columns, borderaxespad=0.1, handlelength=1.4,
            columnspacing=1.2,
        )  # fmt: skip


def shortened(text: str, longest: int = _LONGEST_LABEL) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def log_seconds(axis: Axis) -> None:
    """Label a logarithmic axis of seconds, with 2 and 5 between the decades where there is room."""
    low_s, high_s = axis.get_view_interval()
    if high_s < _LEAST_SPAN * low_s:  # all values alike: a picture of rounding errors helps nobody
        middle_s = (low_s * high_s) ** 0.5
        low_s, high_s = middle_s / _LEAST_SPAN**0.5, middle_s * _LEAST_SPAN**0.5
        axis.set_view_interval(low_s, high_s, ignore=True)
    subs = (1, 2, 5) if high_s / max(low_s, 1e-12) < 60 else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(SECONDS)


def _tick(value_s: float, _: int | None = None) -> str:
    """`200 ms`, `5 s`, `10 µs`: no more digits than a tick needs."""
    for size_s, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value_s) >= size_s * 0.9999:
            return f"{value_s / size_s:g} {unit}"
    return "0"


SECONDS = FuncFormatter(_tick)


_CLOCK = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_STEPS = (1, 2, 3, 5, 6, 10, 12, 15, 20, 30, 60, 120)
_MOST_TICKS = 12


def clock(axis: Axis) -> None:
    """An axis of seconds, in whole numbers of the largest unit that gives enough ticks."""
    end_s = axis.get_view_interval()[1]
    unit_s, unit = next((u for u in _CLOCK if end_s >= 3 * u[0]), _CLOCK[-1])
    step = next((n for n in _STEPS if end_s / (n * unit_s) <= _MOST_TICKS), None)
    if step:
        axis.set_major_locator(MultipleLocator(step * unit_s))
    axis.set_major_formatter(FuncFormatter(lambda value_s, _: f"{value_s / unit_s:g} {unit}"))


@contextmanager
def _our_style(name: str) -> Iterator[None]:
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        # A lane name in a script that the PNG's font lacks: boxes there, text in the SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
