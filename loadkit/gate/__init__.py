"""`loadkit gate run` wired from the rooms: both releases in turn, on the same requests, load by load."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadkit.errors import InputError, RunError
from loadkit.knee.segments import require_length, segment
from loadkit.records import RunDir
from loadkit.trace import read_table, write

__all__ = ["SIDES", "PairsOptions", "run_pairs"]

SIDES = ("base", "new")
Measure = Callable[[str, Path, Path], None]
"""(side, trace, folder): replay the trace against that side into the folder."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PairsOptions:
    trace: Path
    rates_rps: Sequence[float]
    pairs: int
    measure_s: float
    output: Path
    measure: Measure
    trace_format: str | None = None
    seed: int = 1


@dataclass(frozen=True, slots=True)
class _Turn:
    """One run: which side, under which load, of which pair."""

    side: str
    load: int
    pair: int

    def folder(self, output: Path) -> Path:
        return output / self.side / f"load{self.load + 1}-pair{self.pair + 1:02d}"


def run_pairs(options: PairsOptions, say: Say) -> dict[str, Path]:
    """Side → the folder of its runs. Goes on where it was interrupted. Raises LoadkitError."""
    turns = _turns(options)
    say(
        f"{len(turns)} runs of {options.measure_s:g} s: {options.pairs} pairs under "
        f"{len(options.rates_rps)} loads, {len(turns) * options.measure_s / 60:.0f} min and what the "
        "servers take to drain"
    )
    traces = _traces(options)
    for number, turn in enumerate(turns, start=1):
        folder = turn.folder(options.output)
        if _finished(folder):
            continue
        _set_aside(folder)
        rate_rps = options.rates_rps[turn.load]
        say(f"run {number} of {len(turns)}: {turn.side}, {rate_rps:.4g} rps, pair {turn.pair + 1}")
        options.measure(turn.side, traces[turn.load], folder)
        if not _finished(folder):
            why = RunDir(folder).manifest().ended_why
            raise RunError(f"{folder}: {why}", hint="the same command goes on from here")
    return {side: options.output / side for side in SIDES}


def _turns(options: PairsOptions) -> list[_Turn]:
    """A B B A …, so that what drifts with time falls on both alike."""
    return [
        _Turn(side, load, pair)
        for load in range(len(options.rates_rps))
        for pair in range(options.pairs)
        for side in (SIDES if pair % 2 == 0 else SIDES[::-1])
    ]


def _traces(options: PairsOptions) -> list[Path]:
    """One part of the trace for each load, the same for all of its runs."""
    table = read_table(options.trace, options.trace_format)
    require_length(table, options.measure_s)
    options.output.mkdir(parents=True, exist_ok=True)
    found = []
    for number, rate_rps in enumerate(options.rates_rps):
        path = options.output / f"load{number + 1}.parquet"
        rng = np.random.default_rng([options.seed, number])
        part = segment(table, rate_rps, options.measure_s, rng)
        if path.exists() and read_table(path).rows != part.rows:
            raise InputError(
                f"{options.output}: holds runs of another load", hint="give a new -o for this one"
            )
        write(part, path, force=True)
        found.append(path)
    return found


def _finished(folder: Path) -> bool:
    return (folder / "run.json").exists() and RunDir(folder).manifest().state == "finished"


def _set_aside(folder: Path) -> None:
    """A run that was interrupted stays readable, outside of the folder that is judged."""
    if not folder.exists():
        return
    aside = folder.parent.parent / "interrupted"
    aside.mkdir(exist_ok=True)
    number = len(list(aside.iterdir())) + 1
    folder.rename(aside / f"{folder.parent.name}-{folder.name}-{number}")
