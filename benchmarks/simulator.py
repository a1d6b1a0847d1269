"""How fast the simulator is, and that its cost grows in step with the requests.

A day of two lanes on 64 slots, seeded. Each figure is taken in a process of its own, so that memory is
its own too. Prints a table, writes it under benchmarks/results/ and exits 1 when a promise is broken.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadkit.core import PROFILES, EngineLimits, parse_policy
from loadkit.model import Send
from loadkit.sim import (
    EngineModel,
    SlotOptions,
    Workload,
    simulate_slots,
    simulate_tokens,
)

HERE = Path(__file__).resolve().parent
SLOTS = 64
LOAD = 0.85
DAY_S = 86_400.0
POLICY = "reserve:8+preempt"
SLOT_REQUESTS = (250_000, 500_000, 1_000_000)
TOKEN_REQUESTS = (2_500, 5_000, 10_000)


class Figure(NamedTuple):
    level: str
    requests: int
    elapsed_s: float
    rss_mib: float

    @property
    def rate_rps(self) -> float:
        return self.requests / self.elapsed_s


def workload(count: int) -> Workload:
    """Interactive jobs over the whole day; a tenth are batch jobs, ten times as long, in the evening."""
    rng = np.random.default_rng(7)
    batch = rng.random(count) < 0.1
    at_s = np.where(
        batch, rng.uniform(0.7 * DAY_S, 0.8 * DAY_S, count), rng.uniform(0, DAY_S, count)
    )
    rows = np.argsort(at_s, kind="stable")
    mean_s = LOAD * SLOTS * DAY_S / count / 1.9  # 0.9 x 1 + 0.1 x 10
    service_s = rng.exponential(mean_s, count) * np.where(batch, 10.0, 1.0)
    names = [f"r{number}" for number in range(count)]
    lanes = batch[rows].astype(np.int64)
    return Workload(names, at_s[rows], service_s[rows] + 1e-3, ["interactive", "batch"], lanes)


def sends(count: int) -> list[Send]:
    rng = np.random.default_rng(8)
    at_s = np.sort(rng.uniform(0, count / 8.0, count))
    lanes = np.where(rng.random(count) < 0.1, "batch", "interactive")
    prompts, outputs = rng.integers(50, 1500, count), rng.integers(20, 300, count)
    columns = zip(at_s.tolist(), lanes.tolist(), prompts.tolist(), outputs.tolist(), strict=True)
    return [Send(f"r{i}", at, lane, p, o) for i, (at, lane, p, o) in enumerate(columns)]


def measured(level: str, count: int) -> Figure:
    """In this process."""
    policy = parse_policy(POLICY)
    gc.disable()  # as the command does: nothing here is cyclic
    began_s = time.perf_counter()
    if level == "slot":
        simulate_slots(workload(count), policy, SlotOptions(SLOTS))
    else:
        speed = PROFILES["h100-8b"]
        limits = EngineLimits(max_num_seqs=SLOTS, kv_blocks=speed.kv_blocks)
        simulate_tokens(sends(count), policy, EngineModel(limits, speed.cost), None)
    elapsed_s = time.perf_counter() - began_s
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Figure(level, count, elapsed_s, rss_mib)


def apart(level: str, count: int) -> Figure:
    """In a process of its own."""
    command = [sys.executable, __file__, "--one", level, str(count)]
    return Figure(*json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def checks(figures: list[Figure]) -> Iterator[tuple[str, float, float]]:
    """What, its value, and its upper bound."""
    by_size = {(f.level, f.requests): f for f in figures}
    million = by_size["slot", 1_000_000]
    yield "1,000,000 requests at slot level, s", million.elapsed_s, 20.0
    yield "1,000,000 requests at slot level, MiB", million.rss_mib, 1024.0
    for level, sizes in (("slot", SLOT_REQUESTS), ("token", TOKEN_REQUESTS)):
        small, large = by_size[level, sizes[0]], by_size[level, sizes[-1]]
        growth = large.elapsed_s / small.elapsed_s
        yield f"{level} level: time of 4 x the requests, as a multiple", growth, 4 * 1.5


def table(figures: list[Figure]) -> str:
    lines = [
        "| level | requests | time s | requests/s | peak MiB |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {f.level} | {f.requests:,} | {f.elapsed_s:.2f} | {f.rate_rps:,.0f} | {f.rss_mib:.0f} |"
        for f in figures
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("LEVEL", "REQUESTS"), help="one figure, as JSON")
    parser.add_argument("-o", "--out", type=Path, default=HERE / "results")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(args.one[0], int(args.one[1]))))
        return 0
    asked: list[tuple[str, Any]] = [("slot", SLOT_REQUESTS), ("token", TOKEN_REQUESTS)]
    figures = [apart(level, count) for level, counts in asked for count in counts]
    found = list(checks(figures))
    lines = [
        f"- {'PASS' if v <= b else 'FAIL'}  {what}: {v:.3g}, bound {b:g}" for what, v, b in found
    ]
    setting = (
        f"{POLICY} on {SLOTS} slots, Python {sys.version.split()[0]}. Making the work is timed too."
    )
    text = "\n\n".join(["# Simulator", setting, table(figures), "\n".join(lines)]) + "\n"
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "simulator.md").write_text(text, "utf-8")
    return 0 if all(value <= bound for _, value, bound in found) else 1


if __name__ == "__main__":
    sys.exit(main())
