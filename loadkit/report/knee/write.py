"""A search → the files of `SEARCH/report/`. May be done again at any time; every file appears whole."""

import json

from loadkit.analysis.knee.as_json import knee_json
from loadkit.analysis.knee.result import KneeResult
from loadkit.report.knee.charts import charts
from loadkit.report.knee.markdown import knee_markdown
from loadkit.report.knee.page import knee_page
from loadkit.report.write import ReportPaths, disk_errors, put_files


def write_knee(result: KneeResult) -> ReportPaths:
    """Write index.html, summary.md, summary.json and a PNG per chart. Raises RunError."""
    folder = result.folder / "report"
    drawn = charts(result)
    files = {
        **{f"{chart.name}.png": chart.png for chart in drawn},
        "summary.json": json.dumps(knee_json(result), indent=2, allow_nan=False).encode() + b"\n",
        "summary.md": knee_markdown(result).encode(),
        "index.html": knee_page(result, drawn).encode(),
    }
    hint = "the steps are safe: free some disk and run `loadkit report` again"
    with disk_errors(folder, hint):
        folder.mkdir(exist_ok=True)
        put_files(folder, files)
    pngs = tuple(folder / f"{chart.name}.png" for chart in drawn)
    return ReportPaths(folder / "index.html", folder / "summary.md", folder / "summary.json", pngs)
