"""`loadkit trace show | convert | synth`."""

import typer

app = typer.Typer(no_args_is_help=True, help="Look at, convert or make traces.")


@app.callback()
def _trace() -> None:
    pass
