"""The whole tool in a minute: a synthetic day, the embedded engine, one replay, one report."""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from loadkit import trace, units
from loadkit.analysis import RunSummary
from loadkit.errors import InputError, LoadkitError, TargetError
from loadkit.model import Target
from loadkit.replay import ReplayOptions, replay
from loadkit.trace.synth import Spec, synthesize

DAY_S = 45.0
RATE_RPS = 4.0
SLOTS = 24
"""Few enough that the evening's batch jobs are felt by the interactive lane."""
SLOS = ("interactive:ttft:p99:500ms", "interactive:e2e:p99:10s")
_STARTS_WITHIN_S = 30.0
_STOPS_WITHIN_S = 10.0

Say = Callable[[str], None]


def demo(output: Path, say: Say) -> tuple[RunSummary, LoadkitError | None]:
    """Replay a compressed day against an emulator of our own; as `loadkit.replay.replay`."""
    if output.exists():
        raise InputError(f"{output}: already exists", hint="choose another -o, or move it away")
    with tempfile.TemporaryDirectory() as scratch, _emulator(Path(scratch)) as url:
        day = Path(scratch) / "synthetic-day.parquet"
        spec = Spec("diurnal", duration_s=DAY_S, rate_rps=RATE_RPS, seed=1, day_s=DAY_S)
        trace.write(synthesize(spec), day)
        say(f"a synthetic day, compressed to {DAY_S:.0f} s, against an emulator with {SLOTS} slots")
        options = ReplayOptions(
            trace=day,
            target=Target(url=url),
            output=output,
            slos=tuple(units.slo(text) for text in SLOS),
            command=("loadkit", "demo"),
        )
        return replay(options, say)


@contextlib.contextmanager
def _emulator(folder: Path) -> Iterator[str]:
    """`loadkit emulate` in a process of its own; gives its URL."""
    port_file = folder / "port"
    options = ["--port", "0", "--port-file", str(port_file), "--slots", str(SLOTS)]
    command = [sys.executable, "-m", "loadkit", "emulate", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        yield f"http://127.0.0.1:{_port(process, port_file)}"
    finally:
        process.terminate()
        try:
            process.wait(_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: "subprocess.Popen[bytes]", port_file: Path) -> int:
    until_s = time.monotonic() + _STARTS_WITHIN_S
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > until_s:
            raise TargetError("the emulator did not start", hint="try `loadkit emulate` by itself")
        time.sleep(0.05)
    return int(port_file.read_text())
