"""A verdict → the files of its folder. May be done again at any time; every file appears whole."""

import json
from pathlib import Path

from loadkit import __version__
from loadkit.analysis.gate import Gate
from loadkit.analysis.gate.as_json import gate_json
from loadkit.errors import RunError
from loadkit.report.gate import tables, words
from loadkit.report.gate.junit import gate_junit
from loadkit.report.gate.markdown import gate_markdown
from loadkit.report.page import environment
from loadkit.report.write import disk_errors, put_files

_OURS = "gate.json"


def refuse_foreign(folder: Path) -> None:
    """Raises RunError when the folder holds anything but an earlier verdict, so nothing is lost."""
    free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not free and not (folder / _OURS).is_file():
        raise RunError(
            f"{folder}: already exists and holds no verdict",
            hint="choose another -o, or move it away",
        )


def write_gate(folder: Path, found: Gate, command: str, *, inconclusive_passes: bool) -> Path:
    """Write index.html, summary.md, gate.json and junit.xml. Returns the page. Raises RunError."""
    refuse_foreign(folder)
    files = {
        "summary.md": gate_markdown(found).encode(),
        "index.html": _page(found, command).encode(),
        "junit.xml": gate_junit(found, inconclusive_passes=inconclusive_passes),
        _OURS: json.dumps(gate_json(found), indent=2, allow_nan=False).encode() + b"\n",
    }
    with disk_errors(folder, "the runs are as they were: choose another -o, or free some disk"):
        folder.mkdir(parents=True, exist_ok=True)
        put_files(folder, files)
    return folder / "index.html"


def _page(found: Gate, command: str) -> str:
    """Names and reasons come from elsewhere and are escaped."""
    return (
        environment()
        .get_template("gate.html.j2")
        .render(
            headline=words.headline(found),
            cautions=found.cautions,
            results=tables.results(found),
            runs=tables.runs(found),
            command=command,
            colours={},
            charts={},
            version=__version__,
        )
    )
