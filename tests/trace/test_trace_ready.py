"""The ready traces in `traces/` are what its README says, and can be made again."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadkit.cli.trace import app
from loadkit.trace import read_table

FOLDER = Path(__file__).parents[2] / "traces"
COMMANDS = re.findall(
    r"^loadkit trace (synth .*) -o traces/(\S+)$", (FOLDER / "README.md").read_text(), re.MULTILINE
)
WRITTEN_BY_HAND = {"README.md", "head-of-line.csv"}


def test_every_ready_trace_has_its_command_or_was_written_by_hand() -> None:
    ready = {path.name for path in FOLDER.iterdir()}
    assert {name for _, name in COMMANDS} == ready - WRITTEN_BY_HAND


def test_the_head_of_line_trace_is_eight_streams_and_one_prompt_of_32k() -> None:
    rows = read_table(FOLDER / "head-of-line.csv").table.to_pylist()
    assert [row["prompt_tokens"] for row in rows] == [256] * 8 + [32 * 1024]


@pytest.mark.parametrize(("command", "name"), COMMANDS, ids=[name for _, name in COMMANDS])
def test_the_command_makes_the_trace_again(tmp_path: Path, command: str, name: str) -> None:
    result = CliRunner().invoke(app, [*shlex.split(command), "-o", str(tmp_path / name)])
    assert result.exit_code == 0, result.output
    made, ready = read_table(tmp_path / name), read_table(FOLDER / name)
    assert made.table.to_pylist() == ready.table.to_pylist()
    rows = f"| `{name}` | {ready.rows} |"
    assert rows in (FOLDER / "README.md").read_text()
    assert set(ready.table["lane"].to_pylist()) == {"interactive", "batch"}
    assert (FOLDER / name).stat().st_size < 100_000
