"""A summary → the files of `RUN/report/`. May be done again at any time; every file appears whole."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from loadkit.analysis import RunSummary, to_json
from loadkit.errors import RunError
from loadkit.records import RunDir
from loadkit.report.charts import charts
from loadkit.report.markdown import markdown
from loadkit.report.page import page


class ReportPaths(NamedTuple):
    html: Path
    markdown: Path
    json: Path
    png: tuple[Path, ...]


def write_report(run: RunDir, summary: RunSummary) -> ReportPaths:
    """Write index.html, summary.md, summary.json and a PNG per chart.

    Raises RunError when the disk refuses.
    """
    folder = run.report_dir
    hint = "the rows are safe: free some disk and run `loadkit report` again"
    with disk_errors(folder, hint):
        folder.mkdir(exist_ok=True)
    drawn = charts(summary)
    files = {
        **{f"{chart.name}.png": chart.png for chart in drawn},
        "summary.json": json.dumps(to_json(summary), indent=2, allow_nan=False).encode() + b"\n",
        "summary.md": markdown(summary).encode(),
        "index.html": page(summary, drawn).encode(),
    }
    with disk_errors(folder, hint):
        put_files(folder, files)
    pngs = tuple(folder / f"{chart.name}.png" for chart in drawn)
    return ReportPaths(folder / "index.html", folder / "summary.md", folder / "summary.json", pngs)


def put_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Each whole or not at all; charts of an earlier report that are no longer drawn go."""
    for stale in folder.glob("*.png"):
        if stale.name not in files:
            stale.unlink()
    for name, content in files.items():
        _replace(folder / name, content)


@contextmanager
def disk_errors(folder: Path, hint: str) -> Iterator[None]:
    """What the disk refuses becomes a RunError with the hint."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{folder}: the report cannot be written ({os.strerror(error.errno or 0)})",
            hint=hint,
        ) from error


def _replace(path: Path, content: bytes) -> None:
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        hidden.write_bytes(content)
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
