"""A drawing loses bytes on its way into a page, and nothing that can be seen."""

import re

import pytest
from matplotlib.figure import Figure

from loadkit.report.figures import draw
from loadkit.report.svg import for_a_page, short_path


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M 0 0 \nL 10.04 0 \nL 10.04 5.26 \nL 12 7 \nz\n", "M0 0H10V5.3L12 7z"),
        ("M 1 1 \nL 1.01 0.99 \nL -0.04 1 \n", "M1 1H0"),
        ("M 0 3 \nC 0.7956 3 1.5587 2.6839 2.1213 2.1213 \n", "M0 3C0.8 3 1.6 2.7 2.1 2.1"),
        ("M 1 2 \nL 3 2 \nM 3 4 \nL 3 5 \n", "M1 2H3M3 4V5"),
    ],
)
def test_a_path_is_rounded_and_steps_are_told_by_one_coordinate(path: str, short: str) -> None:
    assert short_path(path) == short


def test_a_drawing_takes_the_colours_and_the_font_of_the_page() -> None:
    svg = for_a_page(
        '<?xml?><svg height="9pt" width="9pt"><text style="font-family: \'DejaVu Sans\', serif; '
        'fill: #1c2128" transform="rotate(-0 1 2)">a</text></svg>',
        {"#1c2128": "var(--ink)"},
    )
    assert svg == '<svg><text style="font-family: var(--sans); fill: var(--ink)">a</text></svg>'


def test_what_is_drawn_is_still_there_and_much_smaller() -> None:
    def paint(figure: Figure) -> None:
        figure.subplots().stairs(range(200))

    chart = draw("steps", "t", "c", 1.0, paint)
    path = max(re.findall(r' d="([^"]*)"', chart.svg), key=len)
    assert path.count("V") == 200  # a rise at every edge but the first, and the fall at the end
    assert len(path) < 200 * 2 * 7
