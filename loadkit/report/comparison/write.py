"""A comparison → the files of its folder. May be done again at any time; every file appears whole."""

import json
from pathlib import Path
from typing import Any

from loadkit.analysis.comparison import Comparison, comparison_json
from loadkit.errors import RunError
from loadkit.report.comparison.charts import charts
from loadkit.report.comparison.markdown import comparison_markdown
from loadkit.report.comparison.page import comparison_page
from loadkit.report.comparison.words import conclusion
from loadkit.report.write import ReportPaths, disk_errors, put_files

_OURS = "comparison.json"


def refuse_foreign(folder: Path) -> None:
    """Raises RunError when the folder holds anything but an earlier comparison, so nothing is lost."""
    free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not free and not (folder / _OURS).is_file():
        raise RunError(
            f"{folder}: already exists and holds no comparison",
            hint="choose another -o, or move it away",
        )


def write_comparison(folder: Path, comparison: Comparison, command: str = "") -> ReportPaths:
    """Write index.html, summary.md, comparison.json and a PNG per chart, over an earlier comparison.

    Raises RunError when something else is there, or the disk refuses.
    """
    refuse_foreign(folder)
    hint = "the runs are as they were: choose another -o, or free some disk"
    drawn = charts(comparison)
    files = {
        **{f"{chart.name}.png": chart.png for chart in drawn},
        "summary.md": comparison_markdown(comparison).encode(),
        "index.html": comparison_page(comparison, drawn, command).encode(),
        _OURS: json.dumps(as_json(comparison), indent=2, allow_nan=False).encode() + b"\n",
    }
    with disk_errors(folder, hint):
        folder.mkdir(parents=True, exist_ok=True)
        put_files(folder, files)
    pngs = tuple(folder / f"{chart.name}.png" for chart in drawn)
    return ReportPaths(folder / "index.html", folder / "summary.md", folder / _OURS, pngs)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """With the plain-words conclusion as one text."""
    return comparison_json(comparison, " ".join(conclusion(comparison)))
