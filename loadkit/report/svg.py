"""Matplotlib's SVG → an element to stand inside a page: its colours and font, own ids only, few bytes."""

import re
from collections.abc import Mapping

_DIGITS = 1
"""Decimals of a coordinate, of a drawing some 750 units wide: a twentieth of a pixel is not seen."""


def for_a_page(svg: str, colours: Mapping[str, str]) -> str:
    """No prologue, no size; each of `colours` becomes the page's own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"font: ((?:\w+ )?)([\d.]+px) [^;\"]*", r"font: \1\2 var(--sans)", svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: var(--sans)", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = re.sub(r' d="([^"]*)"', lambda found: f' d="{short_path(found[1])}"', svg)
    for colour, variable in colours.items():
        svg = svg.replace(colour, variable)
    return re.sub(r"\n\s*", "\n", svg)


def short_path(path: str) -> str:
    """The same drawing: rounded, and steps along one axis told by the other coordinate alone."""
    told, x, y = [], "", ""
    for command, *numbers in (part.split() for part in path.splitlines()):
        values = [_rounded(number) for number in numbers]
        before, (x, y) = (x, y), (values[-2:] if values else (x, y))
        if command == "L" and before == (x, y):
            continue
        if command == "L" and x == before[0]:
            told.append(f"V{y}")
        elif command == "L" and y == before[1]:
            told.append(f"H{x}")
        else:
            told.append(f"{command}{' '.join(values)}")
    return "".join(told)


def _rounded(number: str) -> str:
    value = f"{float(number):.{_DIGITS}f}".rstrip("0").rstrip(".")
    return "0" if value == "-0" else value
