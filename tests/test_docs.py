"""The documents tell of the program that is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from loadkit.analysis import METRICS
from loadkit.cli import app
from loadkit.core.words import WORDS
from loadkit.errors import LoadkitError
from loadkit.model import Status

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
HEAVY = ("gevent", "locust", "pandas", "pyarrow", "numpy", "matplotlib", "aiohttp")


def commands() -> dict[str, object]:
    """Every command by its words: `replay`, `trace show` …"""
    found: dict[str, object] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for sub, inner in getattr(command, "commands", {}).items():
            found[f"{name} {sub}"] = inner
        if not hasattr(command, "commands"):
            found[name] = command
    return found


def test_every_command_is_in_the_readme_and_every_command_in_the_readme_exists() -> None:
    shown = set(re.findall(r"\$ loadkit (trace \w+|gate run\b|\w+)", README))

    assert {"gate judge" if name == "gate" else name for name in shown} == set(commands())


def test_every_option_in_the_readme_exists() -> None:
    known = {
        option
        for command in commands().values()
        for parameter in command.params  # type: ignore[attr-defined]
        for option in (*parameter.opts, *parameter.secondary_opts)
    }

    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README.split("## How exact")[0]))

    assert shown - known <= {"--help"}


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    text = commands()[name].help  # type: ignore[attr-defined]

    assert "Example:" in text
    assert f"loadkit {name.removesuffix(' judge')}" in text


def test_every_word_of_the_policy_language_is_explained() -> None:
    page = (ROOT / "docs" / "policies.md").read_text("utf-8")

    for word in WORDS:
        assert re.search(rf"`{word}[`:=]", page), word


def test_every_metric_and_every_status_is_explained() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8").lower()

    for metric in METRICS.values():
        assert metric.name.replace("_", " ").split(" sent")[0] in page, metric.name
    for status in Status.__args__:  # type: ignore[attr-defined]
        assert f"`{status}`" in page


def test_exit_codes_are_the_ones_that_are_documented() -> None:
    codes = {cls.exit_code for cls in LoadkitError.__subclasses__()}

    assert codes == {1, 2, 3, 4}
    for code in codes:
        assert re.search(rf"\b{code} (an SLO|bad usage|run invalid|target)", README)


def test_help_loads_nothing_heavy() -> None:
    listed = f"import loadkit.cli, sys; print([m for m in {HEAVY} if m in sys.modules])"

    out = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, check=True, timeout=30
    ).stdout

    assert out.strip() == "[]"
