"""A search in wall time against the truth of long simulated runs: does the interval hold it?

`loadkit emulate` serves with eight slots, `loadkit knee` searches, each as a user would start it. The truth
is the rate at which one request in a hundred misses the SLO in hours of virtual time on the same engine
model; the search never sees it. Prints the table, writes it under benchmarks/results/ and exits 1 when the
interval misses the truth. Takes a quarter of an hour.
"""

import argparse
import contextlib
import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from loadkit.core import EngineLimits, parse_policy, profile_from_toml
from loadkit.model import Send
from loadkit.sim import EngineModel, simulate_tokens

HERE = Path(__file__).resolve().parent
LOADKIT = (sys.executable, "-m", "loadkit")

SLOTS = 8
PROFILE = "base_s = 0.01\nprefill_s_per_token = 20e-6\nkv_blocks = 65536\n"
MAX_MODEL_LEN = 2048
PROMPT_TOKENS = 64
OUTPUT_TOKENS, OUTPUT_SIGMA, OUTPUT_MAX = 30, 0.8, 400
"""A lognormal law with this mean: about 0.3 s of a slot."""
TTFT_S = 0.6
QUANTILE = 0.99
RECORDED_S, RECORDED_RPS = 1800.0, 10.0
WARM_S, MEASURE_S, SOAK_S = 5.0, 25.0, 120.0
TRUTH_REQUESTS = 60_000
"""A run, of which every rate gets TRUTH_RUNS; in all five hours."""
TRUTH_RUNS = 6
SETTLED_S = 60.0


def sends(rate_rps: float, duration_s: float, rng: np.random.Generator) -> list[Send]:
    """Poisson arrivals of one lane."""
    at_s = np.sort(rng.uniform(0, duration_s, rng.poisson(rate_rps * duration_s)))
    mean_log = np.log(OUTPUT_TOKENS) - OUTPUT_SIGMA**2 / 2
    lengths = np.clip(rng.lognormal(mean_log, OUTPUT_SIGMA, len(at_s)), 1, OUTPUT_MAX).astype(int)
    rows = zip(at_s.tolist(), lengths.tolist(), strict=True)
    return [
        Send(f"r{number}", due_s, "interactive", PROMPT_TOKENS, tokens)
        for number, (due_s, tokens) in enumerate(rows)
    ]


def write_trace(path: Path) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("request_id", "arrival_s", "lane", "prompt_tokens", "output_tokens"))
        rows.writerows(
            (s.request_id, s.scheduled_s, s.lane, s.prompt_tokens, s.output_tokens)
            for s in sends(RECORDED_RPS, RECORDED_S, np.random.default_rng(5))
        )


def missed_share(rate_rps: float, seed: int) -> float:
    """Of one long simulated run, its beginning left out."""
    speed = profile_from_toml(PROFILE)
    limits = EngineLimits(
        max_num_seqs=SLOTS,
        kv_blocks=speed.kv_blocks,
        max_model_len=MAX_MODEL_LEN,
        prefix_cache=False,
    )
    wanted = sends(rate_rps, TRUTH_REQUESTS / rate_rps, np.random.default_rng([seed, 11]))
    result = simulate_tokens(wanted, parse_policy("fifo"), EngineModel(limits, speed.cost))
    late = [
        served.seq.first_token_s - served.send.scheduled_s > TTFT_S
        for served in result.served
        if served.seq and served.seq.first_token_s and served.send.scheduled_s > SETTLED_S
    ]
    return float(np.mean(late))


def truth_rps(workers: int) -> float:
    """Bisection with the same random numbers at every rate."""
    full_rps = SLOTS / (OUTPUT_TOKENS * 0.01)
    low, high = 0.4 * full_rps, full_rps
    with ProcessPoolExecutor(workers) as pool:
        for _ in range(8):
            rate_rps = (low + high) / 2
            shares = list(pool.map(missed_share, [rate_rps] * TRUTH_RUNS, range(TRUTH_RUNS)))
            is_over = np.mean(shares) > 1 - QUANTILE
            low, high = (low, rate_rps) if is_over else (rate_rps, high)
    return (low + high) / 2


@contextlib.contextmanager
def _emulator(folder: Path) -> Iterator[str]:
    """Its URL."""
    profile, port = folder / "profile.toml", folder / "port"
    profile.write_text(PROFILE)
    command = [
        *LOADKIT, "emulate", "--slots", str(SLOTS), "--profile", str(profile), "--no-prefix-cache",
        "--max-model-len", str(MAX_MODEL_LEN), "--port", "0", "--port-file", str(port),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + 30
        while not port.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{int(port.read_text())}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def searched(folder: Path, seed: int) -> Any:
    """What `loadkit knee --json` tells. Exits where it found nothing."""
    trace = folder / "trace.csv"
    write_trace(trace)
    with _emulator(folder) as url:
        command = [
            *LOADKIT, "knee", str(trace), "--target", url, "-o", str(folder / "search"), "--json",
            "--slo", f"interactive:ttft:p99:{1000 * TTFT_S:g}ms", "--seed", str(seed),
            "--warm", f"{WARM_S:g}s", "--measure", f"{MEASURE_S:g}s", "--soak", f"{SOAK_S:g}s",
        ]  # fmt: skip
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if not done.stdout:
        sys.exit(f"loadkit knee ended with {done.returncode}")
    return json.loads(done.stdout)


def table(found: Any, truth: float, minutes: float) -> str:
    def cell(one: Any) -> str:
        if one["rps"] is None:
            return str(one["reason"])
        bounds = "" if one["low"] is None else f" ({one['low']:.2f} to {one['high']:.2f})"
        return f"{one['rps']:.2f}{bounds}"

    rows = [
        ("capacity at the SLO, truth, requests/s", f"{truth:.2f}"),
        ("capacity at the SLO, found", cell(found["capacity_at_slo"])),
        ("turn-up", cell(found["turn_up"])),
        ("turn-up of queue wait", cell(found["queue_wait_turn_up"])),
        ("saturation", cell(found["saturation"])),
        ("steps", str(len(found["steps"]))),
        ("steps that were invalid", str(sum(not step["valid"] for step in found["steps"]))),
        (f"soak of {SOAK_S:g} s at the lower bound", str(found["soak"])),
        ("minutes", f"{minutes:.0f}"),
    ]
    return "\n".join(
        ["| | |", "| --- | ---: |", *(f"| {name} | {value} |" for name, value in rows)]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="of the simulated truth")
    parser.add_argument("--work", type=Path, default=Path("runs/knee-live"))
    parser.add_argument("-o", "--out", type=Path, default=HERE / "results")
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    truth = truth_rps(args.workers)
    print(f"truth {truth:.2f} requests/s", file=sys.stderr, flush=True)
    began_s = time.monotonic()
    found = searched(args.work, args.seed)
    minutes = (time.monotonic() - began_s) / 60
    capacity = found["capacity_at_slo"]
    holds = capacity["rps"] is not None and capacity["low"] <= truth <= capacity["high"]
    line = f"- {'PASS' if holds else 'FAIL'}  the interval holds the truth"
    text = f"# The knee in wall time\n\n{table(found, truth, minutes)}\n\n{line}\n"
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "knee_live.md").write_text(text, "utf-8")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
