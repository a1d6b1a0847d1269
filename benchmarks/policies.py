"""Seven policies in wall time: does the emulator rank them as the simulator does, with the same waits?

Two and a half minutes of two lanes on 64 slots, once for each policy: `loadkit emulate` serves,
`loadkit replay` sends. The simulator is then given the arrivals that the emulator wrote down, so what is
left to explain is the emulator's own clock. Prints the tables, writes them under benchmarks/results/ and
exits 1 when an order or a wait disagrees. Takes 20 minutes.
"""

import argparse
import contextlib
import csv
import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.stats import t as student

from loadkit.core import EngineLimits, parse_policy, profile_from_toml
from loadkit.model import Send
from loadkit.sim import EngineModel, simulate_tokens

HERE = Path(__file__).resolve().parent
LOADKIT = (sys.executable, "-m", "loadkit")

SLOTS = 64
DAY_S = 150.0
BATCH_SUBMITTED_WITHIN_S = 5.0
BATCH_TIMEOUT_S = DAY_S + 5.0
PROFILE = "base_s = 0.02\nprefill_s_per_token = 40e-6\nkv_blocks = 65536\n"
"""An evicted batch job is computed again at the cost of everybody's step: about 30 ms."""
POLICIES = (
    "fifo", "priority", "reserve:4", "reserve:8", "reserve:16", "preempt", "reserve:8+preempt",
)  # fmt: skip
BY_WAIT = ("fifo", "priority", "reserve:4", "reserve:8", "reserve:16", "preempt")
"""Longest p99 of the interactive wait first. `reserve:8+preempt` ties with `preempt`: nobody waits."""
BY_BATCH = (
    "fifo", "priority", "reserve:4", "reserve:8", "reserve:8+preempt", "reserve:16", "preempt",
)  # fmt: skip
"""Most batch jobs done by the end of the day first. Both orders are those of reports/seven-policies."""
QUANTILES = (0.5, 0.9, 0.99)
REPLICAS = 20
CONFIDENCE = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy, live or simulated."""

    wait_s: tuple[float, ...]
    """Of interactive requests, at QUANTILES."""
    batch_done: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class Live:
    policy: str
    sends: Sequence[Send]
    """Due when the emulator says they arrived."""
    outcome: Outcome
    lateness_s: float
    """p99 of how late the emulator's steps ended, as it says itself."""
    arrival_lag_p99_s: float
    valid: bool


def write_trace(path: Path) -> list[Send]:
    """64 slots: interactive work takes 44 % of them on average and 62 % at noon, batch asks for 87 %."""
    rng = np.random.default_rng(3)
    step_s, mean_tokens, batch_factor = 0.02, 25, 15
    rate_rps = 0.436 * SLOTS / (mean_tokens * step_s)
    peak_rps = 1.43 * rate_rps
    candidates_s = np.sort(rng.uniform(0, DAY_S, rng.poisson(peak_rps * DAY_S)))
    wanted_rps = rate_rps * (1 - 0.43 * np.cos(2 * np.pi * candidates_s / DAY_S))
    at_s = candidates_s[rng.uniform(0, peak_rps, len(candidates_s)) < wanted_rps]
    batch = round(0.868 * SLOTS * DAY_S / (mean_tokens * step_s * batch_factor))
    sends = [
        Send(f"i{n}", at, "interactive", 16, int(rng.integers(12, 39)))
        for n, at in enumerate(at_s.tolist())
    ]
    sends += [
        Send(f"b{n}", at, "batch", 500, int(rng.integers(187, 564)), deadline_s=DAY_S)
        for n, at in enumerate(np.linspace(0, BATCH_SUBMITTED_WITHIN_S, batch).tolist())
    ]
    sends.sort(key=lambda send: send.scheduled_s)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        names = ("request_id", "arrival_s", "lane", "prompt_tokens", "output_tokens", "deadline_s")
        rows.writerow(names)
        rows.writerows(
            (s.request_id, s.scheduled_s, s.lane, s.prompt_tokens, s.output_tokens, s.deadline_s)
            for s in sends
        )
    return sends


def engine_model() -> EngineModel:
    """That of `_emulator`."""
    speed = profile_from_toml(PROFILE)
    limits = EngineLimits(
        max_num_seqs=SLOTS, kv_blocks=speed.kv_blocks, max_model_len=4096, prefix_cache=False
    )
    return EngineModel(limits, speed.cost)


@contextlib.contextmanager
def _emulator(policy: str, folder: Path) -> Iterator[str]:
    """Its URL."""
    profile, port = folder / "profile.toml", folder / "port"
    profile.write_text(PROFILE)
    command = [
        *LOADKIT, "emulate", "--policy", policy, "--slots", str(SLOTS), "--profile", str(profile),
        "--max-model-len", "4096", "--no-prefix-cache", "--port", "0", "--port-file", str(port),
        "--ledger", str(folder / "ledger.jsonl"),
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


def live(policy: str, trace: Path, planned: Sequence[Send], folder: Path) -> Live:
    """Replay the trace against a fresh emulator. Exits where the replay did not run."""
    run = folder / "run"
    with _emulator(policy, folder) as url:
        command = [
            *LOADKIT, "replay", str(trace), "--target", url, "-o", str(run), "--timeout",
            f"{BATCH_TIMEOUT_S:g}s", "--slo", "interactive:queue_wait:p99:100ms",
        ]  # fmt: skip
        code = subprocess.run(command, check=False).returncode
        if code not in (0, 1, 3):
            sys.exit(f"{policy}: loadkit replay ended with {code}")
    ledger, clock = _ledger(folder / "ledger.jsonl")
    origin_s = json.loads((run / "run.json").read_text())["anchor"]["monotonic_s"]
    arrived_s = {name: row["queued_s"] - origin_s for name, row in ledger.items()}
    lag_s = np.array([arrived_s[send.request_id] - send.scheduled_s for send in planned])
    return Live(
        policy=policy,
        sends=[send._replace(scheduled_s=arrived_s[send.request_id]) for send in planned],
        outcome=_outcome(run, ledger),
        lateness_s=clock["lateness_p99_s"],
        arrival_lag_p99_s=float(np.quantile(lag_s, 0.99)),
        valid=code != 3,
    )


def _ledger(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """The rows of requests that came to the engine, by request id; what it says of its own clock."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    asked = {row["request_id"]: row for row in rows if row.get("queued_s") is not None}
    return asked, rows[-1]["clock"]


def _outcome(run: Path, ledger: Mapping[str, Mapping[str, Any]]) -> Outcome:
    rows = pq.read_table(run / "requests").to_pandas()
    waits_s = rows.loc[rows.lane == "interactive", "queue_wait_s"].dropna().to_numpy()
    done = (rows.lane == "batch") & (rows.status == "ok") & (rows.finished_s <= DAY_S)
    # The client knows nothing of evictions in answers that it did not wait for.
    evictions = sum(row["preemptions"] for row in ledger.values())
    return Outcome(_at_quantiles(waits_s), int(done.sum()), evictions)


def simulated(sends: Sequence[Send], policy: str) -> Outcome:
    result = simulate_tokens(sends, parse_policy(policy), engine_model())
    seqs = [(served.send.lane, served.seq) for served in result.served if served.seq]
    waits_s = [
        seq.queue_wait_s
        for lane, seq in seqs
        if lane == "interactive" and seq.queue_wait_s is not None
    ]
    done = sum(
        lane == "batch" and seq.state == "finished" and (seq.ended_s or 0.0) <= DAY_S
        for lane, seq in seqs
    )
    return Outcome(_at_quantiles(np.array(waits_s)), done, result.preemptions)


def _at_quantiles(waits_s: Floats) -> tuple[float, ...]:
    return tuple(np.quantile(waits_s, QUANTILES).tolist())


@dataclass(frozen=True, slots=True)
class Agreement:
    """One number of one policy, live against simulated."""

    policy: str
    what: str
    live: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        return self.low <= self.live <= self.high


def agreements(run: Live) -> Iterator[Agreement]:
    """Live numbers against the simulator's, as far apart as the emulator's clock explains.

    A step that ends late changes whom the next one finds waiting, and from there on everything a little.
    Replicas of the simulation, every arrival moved by up to the lateness, tell how much; the live number
    must lie within the prediction interval that they give (Student's t, all numbers of the table
    together at 95 %), widened by the lateness itself where it is a time.
    """
    rng = np.random.default_rng(1)
    replicas = []
    for _ in range(REPLICAS):
        moves_s = rng.uniform(0, run.lateness_s, len(run.sends)).tolist()
        moved = [
            send._replace(scheduled_s=send.scheduled_s + move_s)
            for send, move_s in zip(run.sends, moves_s, strict=True)
        ]
        replicas.append(simulated(moved, run.policy))
    for index, share in enumerate(QUANTILES):
        values = np.array([replica.wait_s[index] for replica in replicas])
        low, high = _prediction(values)
        name = f"wait p{100 * share:g}, s"
        late_s = run.lateness_s
        yield Agreement(run.policy, name, run.outcome.wait_s[index], low - late_s, high + late_s)
    for name, value, counts in (
        ("batch done", run.outcome.batch_done, [replica.batch_done for replica in replicas]),
        ("evictions", run.outcome.preemptions, [replica.preemptions for replica in replicas]),
    ):
        yield Agreement(run.policy, name, value, *_prediction(np.array(counts)))


def _prediction(values: Floats) -> tuple[float, float]:
    """Where one more value lies: mean +- t s sqrt(1 + 1/n), Bonferroni over all numbers compared."""
    compared = len(POLICIES) * (len(QUANTILES) + 2)
    n = len(values)
    factor = student.ppf(1 - (1 - CONFIDENCE) / compared / 2, n - 1) * np.sqrt(1 + 1 / n)
    mean, half = float(values.mean()), float(factor * values.std(ddof=1))
    return mean - half, mean + half


def orders(runs: Sequence[Live]) -> Iterator[tuple[str, bool]]:
    """Each pair of neighbours in the two orders, and whether the live runs keep it."""
    outcome = {run.policy: run.outcome for run in runs}
    p99 = QUANTILES.index(0.99)
    for more, less in itertools.pairwise(name for name in BY_WAIT if name in outcome):
        a_s, b_s = outcome[more].wait_s[p99], outcome[less].wait_s[p99]
        yield f"wait p99 {more} {a_s:.3f} s > {less} {b_s:.3f} s", a_s > b_s
    for more, less in itertools.pairwise(name for name in BY_BATCH if name in outcome):
        a, b = outcome[more].batch_done, outcome[less].batch_done
        yield f"batch done {more} {a} > {less} {b}", a > b


def outcome_table(runs: Sequence[Live]) -> str:
    titles = "policy|wait p50 ms|p90 ms|p99 ms|batch done|evictions|lateness p99 ms|lag p99 ms|run"
    lines = [f"| {titles.replace('|', ' | ')} |", "| --- |" + " ---: |" * 7 + " --- |"]
    for run in runs:
        waits = " | ".join(f"{1e3 * wait_s:,.1f}" for wait_s in run.outcome.wait_s)
        lines.append(
            f"| `{run.policy}` | {waits} | {run.outcome.batch_done:,} | {run.outcome.preemptions:,} "
            f"| {1e3 * run.lateness_s:.2f} | {1e3 * run.arrival_lag_p99_s:.1f} "
            f"| {'valid' if run.valid else 'INVALID'} |"
        )
    return "\n".join(lines)


def agreement_table(found: Sequence[Agreement]) -> str:
    lines = ["| policy | number | live | simulated, 95 % | |", "| --- | --- | ---: | ---: | --- |"]
    lines += [
        f"| `{a.policy}` | {a.what} | {a.live:,.4g} | {a.low:,.4g} … {a.high:,.4g} "
        f"| {'PASS' if a.holds else 'FAIL'} |"
        for a in found
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", default=" ".join(POLICIES), help="some of them, for a look")
    parser.add_argument("--runs", type=Path, default=HERE.parent / "runs" / "policies")
    parser.add_argument("-o", "--out", type=Path, default=HERE / "results")
    args = parser.parse_args()
    shutil.rmtree(args.runs, ignore_errors=True)
    args.runs.mkdir(parents=True)
    trace = args.runs / "lanes-150s.csv"
    planned = write_trace(trace)
    runs, found = [], []
    for policy in args.policies.split():
        folder = args.runs / policy.replace(":", "-")
        folder.mkdir()
        runs.append(live(policy, trace, planned, folder))
        found += agreements(runs[-1])
        print(f"{outcome_table(runs[-1:])}\n{agreement_table(found[-len(QUANTILES) - 2 :])}\n")
    kept = list(orders(runs))
    lines = "\n".join(f"- {'PASS' if holds else 'FAIL'}  {what}" for what, holds in kept)
    parts = ["# Seven policies in wall time", outcome_table(runs), lines, agreement_table(found)]
    text = "\n\n".join(parts) + "\n"
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "policies.md").write_text(text, "utf-8")
    good = all(holds for _, holds in kept) and all(a.holds for a in found)
    return 0 if good and all(run.valid for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
