"""`loadkit demo`: the whole tool in a minute."""

from pathlib import Path
from typing import Annotated

import typer

from loadkit.cli.replay import default_output, finish


def demo(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New run directory.  [default: runs/demo-TIME]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Result as JSON on stdout.")] = False,
) -> None:
    """Replay a synthetic day against the embedded engine, and report.

    Two lanes, compressed to under a minute; nothing leaves this machine.

    \b
    Example:
      loadkit demo -o runs/demo
    """
    from loadkit.demo import demo as run_demo

    say = lambda text: typer.echo(text, err=True)  # noqa: E731
    finish(*run_demo(output or default_output("demo"), say), json=json, attached=False)
