"""How often the gate cries wolf, and what it finds: seeded releases in virtual time whose truth is known.

Every trial makes K pairs of runs in the order A B B A … of one trace; each run of an engine is faster or
slower by 2 % (its luck), and drifts where that is asked. Prints the table, writes it under
benchmarks/results/ and exits 1 when a promise is broken. Takes about ten minutes.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knee import SERVICE_S, SlotServer, share_text
from loadkit.analysis.comparison.paired import estimate
from loadkit.analysis.gate.verdicts import GateVerdict, gate_verdict, hochberg, loss_p

HERE = Path(__file__).resolve().parent
Floats = NDArray[np.float64]

TRIALS = 200
REQUESTS = 2000
UTILISATION = 0.7
LUCK = 0.02
"""Standard deviation, in the log, of how fast a run of the same engine is."""
QUANTILES = (0.5, 0.99)
DELTAS = (0.05, 0.10)


@dataclass(frozen=True)
class Trial:
    slower: float
    """How much the new engine is slower; 0 = A/A."""
    pairs: int
    drift: float
    """Of a random walk of the machine, per run."""
    seed: int


def run(slower: float, trial: Trial) -> Floats:
    """TTFT at the two quantiles, of one run: the same trace for all runs of a trial."""
    rng = np.random.default_rng([trial.seed, 1])
    server = SlotServer("", 64, "lognormal", 1.0)
    served = server.serve(
        UTILISATION * 64 / SERVICE_S, REQUESTS / (UTILISATION * 64 / SERVICE_S), rng, 1 + slower
    )
    quantiles: Floats = np.quantile(served.ttft_s, QUANTILES)
    return quantiles


def verdicts(trial: Trial) -> list[GateVerdict]:
    """Of p50 and p99."""
    rng = np.random.default_rng([trial.seed, 2])
    machine = 0.0
    values: dict[str, list[Floats]] = {"A": [], "B": []}
    for number in range(trial.pairs):
        for side in "AB" if number % 2 == 0 else "BA":
            machine += trial.drift * rng.standard_normal()
            luck = np.exp(LUCK * rng.standard_normal() + machine)
            slower = trial.slower if side == "B" else 0.0
            values[side].append(run((1 + slower) * luck - 1, trial))
    a, b = np.array(values["A"]), np.array(values["B"])
    found = [
        estimate(a[:, place].tolist(), b[:, place].tolist(), relative=True)
        for place in range(len(QUANTILES))
    ]
    adjusted = hochberg([loss_p(one, "lower") for one in found])
    return [
        gate_verdict(one, p, float(np.log1p(delta)), "lower")
        for one, p, delta in zip(found, adjusted, DELTAS, strict=True)
    ]


class Promise(NamedTuple):
    what: str
    slower: float
    pairs: int
    drift: float
    place: int | None
    """0 = p50, 1 = p99, None = any of them."""
    verdict: tuple[GateVerdict, ...]
    least: float
    most: float


_CLEARED: tuple[GateVerdict, ...] = (
    "NO REGRESSION BEYOND",
    "SMALL REGRESSION WITHIN",
    "IMPROVEMENT",
)
_FAILED: tuple[GateVerdict, ...] = ("REGRESSION",)
PROMISES = (
    Promise("A/A, 5 pairs: false alarms", 0.0, 5, 0.0, None, _FAILED, 0.0, 0.05),
    Promise(
        "A/A, 5 pairs, drift of 2 % a run: false alarms", 0.0, 5, 0.02, None, _FAILED, 0.0, 0.05
    ),
    Promise("5 % slower, 5 pairs: found in p50", 0.05, 5, 0.0, 0, _FAILED, 0.8, 1.0),
    Promise("10 % slower, 10 pairs: found in p99", 0.10, 10, 0.0, 1, _FAILED, 0.95, 1.0),
    Promise("A/A, 10 pairs: p99 cleared of 10 %", 0.0, 10, 0.0, 1, _CLEARED, 0.9, 1.0),
)


def counted(promise: Promise, trials: int, workers: int) -> int:
    jobs = [Trial(promise.slower, promise.pairs, promise.drift, seed) for seed in range(trials)]
    with ProcessPoolExecutor(workers) as pool:
        said = list(pool.map(verdicts, jobs, chunksize=10))
    if promise.place is None:
        return sum(any(one in promise.verdict for one in both) for both in said)
    return sum(both[promise.place] in promise.verdict for both in said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", "--out", type=Path, default=HERE / "results")
    args = parser.parse_args()
    lines: list[str] = [
        "| what | share of the trials (95 %) | promised | |",
        "| --- | ---: | ---: | --- |",
    ]
    kept: list[bool] = []
    for promise in PROMISES:
        count = counted(promise, args.trials, args.workers)
        kept.append(promise.least <= count / args.trials <= promise.most)
        bound = f"≥ {promise.least:g}" if promise.least else f"≤ {promise.most:g}"
        mark = "PASS" if kept[-1] else "FAIL"
        lines.append(f"| {promise.what} | {share_text(count, args.trials)} | {bound} | {mark} |")
        print(lines[-1], flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    table = "\n".join(lines)
    (args.out / "gate.md").write_text(f"# The gate in virtual time\n\n{table}\n", "utf-8")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
