"""Make the worked reports again. Without arguments: those that need nothing but this repository."""

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import short_chat

ROOT = Path(__file__).parent.parent
LOADKIT = (sys.executable, "-m", "loadkit")
ACCEPTED = (0, 1)
"""A missed SLO is a result worth showing; anything else is not a report."""

FIVE_MINUTES = ("--window", "0s:300s", "--scale", "0.15x")


@dataclass(frozen=True)
class Worked:
    replay: tuple[str, ...]
    emulator: tuple[str, ...] | None = None
    """Options of the emulator to start; None = the target is given on the command line."""
    trace: Path | None = None


@dataclass(frozen=True)
class Compared:
    trace: Path
    replay: tuple[str, ...]
    emulators: dict[str, tuple[str, ...]]
    """Label → options."""
    repeats: int


REPORTS = {
    "evening-batch": Worked(
        replay=("--slo", "interactive:ttft:p99:500ms"),
        emulator=("--slots", "12"),
        trace=Path("traces/diurnal-demo.parquet"),
    ),
    "azure-conv-vllm": Worked(replay=(*FIVE_MINUTES, "--slo", "interactive:ttft:p99:2s")),
    "azure-conv-llamacpp": Worked(replay=(*FIVE_MINUTES, "--slo", "interactive:ttft:p99:2s")),
}
POOL = ("--slots", "64", "--tick", "1s", "--horizon", "6h")
SLO = ("--slo", "interactive:queue_wait:p99:2s")
BEST = ("--policy", "reserve:8+preempt")
SIMULATED = {
    "seven-policies": (
        *(*POOL, "--preempt-cost", "15s"),
        *("--policy", "fifo", "--policy", "priority", "--policy", "reserve:4"),
        *("--policy", "reserve:8", "--policy", "reserve:16", "--policy", "preempt"),
        *(*BEST, *SLO),
    ),
}
"""Options of `loadkit sim` on a trace given on the command line."""
COMPARED = {
    "head-of-line": Compared(
        trace=Path("traces/head-of-line.csv"),
        replay=("--slo", "interactive:stall:p99:50ms"),
        emulators={
            "whole prompts": ("--max-model-len", "33000", "--no-chunked-prefill"),
            "512-token chunks": ("--max-model-len", "33000", "--chunk-size", "512"),
        },
        repeats=5,
    ),
}
"""The same trace against several emulators, in turn."""
SEARCHED = {
    "knee-lanes": (
        *("--target", "sim:steady", "--slots", "16", "--policy", "fifo", "--start", "6rps"),
        *("--slo", "interactive:ttft:p99:500ms", "--scale-lane", "interactive", "--and-alone"),
        *("--soak", "10m"),
    ),
    "knee-vllm": (
        *("--slo", "interactive:ttft:p99:1s", "--start", "6rps", "--budget", "20m"),
        *("--warm", "5s", "--measure", "30s"),
    ),
}
"""Options of `loadkit knee` on short questions; a target that is missing is given on the command line."""
WHAT_IFS = {
    "now": (
        *("--preempt-cost", "15s", *BEST, "--policy", "preempt", "--policy", "priority"),
        *("--policy", "priority,floor=8", "--policy", "priority,aging=1h"),
    ),
    "dear": ("--preempt-cost", "60s", *BEST, "--policy", "preempt"),
    "short": ("--preempt-cost", "15s", *BEST, "--batch-service", "0.5x"),
}
"""The same for each run of the report `what-ifs`, which compares them."""


def main() -> None:
    options = _options()
    os.chdir(ROOT)  # the commands in the reports are relative to the repository
    if options.name in SIMULATED:
        simulate(options.name, Path(options.trace))
        return
    if options.name in SEARCHED:
        search(options.name, options.target)
        return
    if options.name == "what-ifs":
        what_ifs(Path(options.trace))
        return
    for name in [options.name] if options.name else [*COMPARED, *_on_an_emulator()]:
        if name in COMPARED:
            compare(name, COMPARED[name])
            continue
        worked = REPORTS[name]
        with (
            tempfile.TemporaryDirectory() as scratch,
            _target(worked.emulator, options, Path(scratch)) as url,
        ):
            remake(name, worked.trace or Path(options.trace), url)


def _on_an_emulator() -> list[str]:
    return [name for name, worked in REPORTS.items() if worked.emulator]


def remake(name: str, trace: Path, url: str) -> None:
    run = Path("runs") / name
    shutil.rmtree(run, ignore_errors=True)
    _run(["replay", str(trace), "--target", url, "-o", str(run), *REPORTS[name].replay])
    kept = Path("reports") / name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(run / "report", kept)
    shutil.copy(run / "run.json", kept)


def compare(name: str, wanted: Compared) -> None:
    """In turn, A B B A …, so that what drifts with time falls on all alike."""
    runs = Path("runs") / name
    shutil.rmtree(runs, ignore_errors=True)
    for number in range(wanted.repeats):
        for label in list(wanted.emulators)[:: -1 if number % 2 else 1]:
            out = runs / label.replace(" ", "-") / str(number + 1)
            out.parent.mkdir(parents=True, exist_ok=True)
            with (
                tempfile.TemporaryDirectory() as scratch,
                _emulator(wanted.emulators[label], Path(scratch)) as url,
            ):
                _run(["replay", str(wanted.trace), "--target", url, "-o", str(out), *wanted.replay])
    kept = Path("reports") / name
    shutil.rmtree(kept, ignore_errors=True)
    labels = [word for label in wanted.emulators for word in ("--label", label)]
    folders = [str(runs / label.replace(" ", "-")) for label in wanted.emulators]
    _run(["compare", *folders, *labels, "-o", str(kept)])


def _run(arguments: list[str]) -> None:
    code = subprocess.run([*LOADKIT, *arguments], check=False).returncode
    if code not in ACCEPTED:
        sys.exit(f"loadkit {shlex.join(arguments)} ended with {code}")


def simulate(name: str, trace: Path) -> None:
    runs = Path("runs") / name
    shutil.rmtree(runs, ignore_errors=True)
    command = [*LOADKIT, "sim", str(trace), *SIMULATED[name], "-o", str(runs)]
    subprocess.run(command, check=True)
    kept = Path("reports") / name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(runs / "comparison", kept)


def what_ifs(trace: Path) -> None:
    runs = Path("runs") / "what-ifs"
    shutil.rmtree(runs, ignore_errors=True)
    for name, asked in WHAT_IFS.items():
        command = [*LOADKIT, "sim", str(trace), *POOL, *asked, "-o", str(runs / name)]
        subprocess.run(command, check=True)
    kept = Path("reports") / "what-ifs"
    shutil.rmtree(kept, ignore_errors=True)
    compared = (str(runs / name) for name in WHAT_IFS)
    subprocess.run([*LOADKIT, "compare", *compared, *SLO, "-o", str(kept)], check=True)


def search(name: str, url: str | None) -> None:
    runs = Path("runs") / name
    shutil.rmtree(runs, ignore_errors=True)
    trace = runs.with_suffix(".parquet")
    trace.parent.mkdir(exist_ok=True)
    short_chat.write(trace, batch="--scale-lane" in SEARCHED[name])
    target = ["--target", url] if url else []
    _run(["knee", str(trace), *target, "-o", str(runs), *SEARCHED[name]])
    kept = Path("reports") / name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(runs / "report", kept)
    shutil.copy(runs / "knee.json", kept)


def _target(
    emulator: tuple[str, ...] | None, options: argparse.Namespace, scratch: Path
) -> contextlib.AbstractContextManager[str]:
    if emulator is None:
        return contextlib.nullcontext(options.target)
    return _emulator(emulator, scratch)


@contextlib.contextmanager
def _emulator(options: tuple[str, ...], scratch: Path) -> Iterator[str]:
    port = scratch / "port"
    files = ("--port", "0", "--port-file", str(port))
    emulator = subprocess.Popen([*LOADKIT, "emulate", *files, *options])
    try:
        until_s = time.monotonic() + 30
        while not port.exists() and time.monotonic() < until_s:
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port.read_text().strip()}"
    finally:
        emulator.terminate()
        emulator.wait(10)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "name", nargs="?", choices=(*REPORTS, *COMPARED, *SIMULATED, *SEARCHED, "what-ifs")
    )
    parser.add_argument("--target", help="for a report against a server of your own")
    parser.add_argument("--trace", help="for a report on a trace of your own")
    return parser.parse_args()


if __name__ == "__main__":
    main()
