"""The product itself: `loadkit replay` on a trace of the plan, its run directory read back.

CPU and memory are taken from outside, process by process. The process that used most of the CPU
is the sending worker and stands beside the peers; the sum over all (the command with its metrics
scraper and Parquet writer, a Locust master) is reported as well.
"""

import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import psutil
from common import Plan, Request, arguments

from loadkit.records import RunDir

SAMPLE_EVERY_S = 1.0
"""Seldom: looking through all processes takes a core from those that are measured."""
RUN_INVALID = 3
"""Exit code of a run that judged its own generator too slow: its rows are still measurements."""


class Usage(NamedTuple):
    at_s: float
    cpu_s: float
    rss_bytes: int


def main() -> None:
    plan, out = arguments()
    with tempfile.TemporaryDirectory(prefix="loadkit-bench-") as folder:
        trace, run_path = Path(folder, "trace.csv"), Path(folder, "run")
        write_trace(plan, trace)
        usage = run_sampled(replay_command(trace, plan.url, run_path))
        run = RunDir.open(run_path)
        origin_s = run.manifest().anchor["monotonic_s"]
        requests = [to_request(row, origin_s) for row in run.requests().to_pylist()]
    out.write_bytes(orjson.dumps(result(requests, usage, origin_s + plan.warmup_s)))


def write_trace(plan: Plan, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["request_id", "arrival_s", "prompt_tokens", "output_tokens"])
        for name, offset_s in plan.requests:
            writer.writerow([name, repr(offset_s), plan.prompt_tokens, plan.tokens])


def replay_command(trace: Path, url: str, run: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "loadkit", "replay", str(trace)),
        *("--target", url, "--api", "completions", "--workers", "1", "-o", str(run)),
    ]


def run_sampled(command: list[str]) -> dict[int, list[Usage]]:
    """Run it to its end and return the CPU and memory of its processes over time, by pid."""
    usage: dict[int, list[Usage]] = {}
    known: dict[int, psutil.Process] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        root = psutil.Process(child.pid)
        while child.poll() is None:
            sample(root, known, usage)
            time.sleep(SAMPLE_EVERY_S)
    if child.returncode not in (0, RUN_INVALID):
        raise SystemExit(f"{' '.join(command)}: exit code {child.returncode}")
    return usage


def sample(
    root: psutil.Process, known: dict[int, psutil.Process], usage: dict[int, list[Usage]]
) -> None:
    try:
        known.update({p.pid: p for p in (root, *root.children(recursive=True))})
    except psutil.NoSuchProcess:
        return
    for pid, process in list(known.items()):
        try:
            times, memory = process.cpu_times(), process.memory_info()
        except psutil.NoSuchProcess:
            del known[pid]
            continue
        now = Usage(time.monotonic(), times.user + times.system, memory.rss)
        usage.setdefault(pid, []).append(now)


def to_request(row: dict[str, Any], origin_s: float) -> Request:
    sent_s = row["sent_s"]
    return Request(
        row["request_id"],
        origin_s + row["scheduled_s"],
        None if sent_s is None else origin_s + sent_s,
        [origin_s + sent_s + offset_s for offset_s in row["chunk_offsets_s"] or ()],
        None if row["status"] == "ok" else f"{row['status']}: {row['error']}",
    )


def result(requests: list[Request], usage: dict[int, list[Usage]], from_s: float) -> dict[str, Any]:
    stamps_s = [t for r in requests for t in r.chunks_s if t >= from_s]
    until_s = max(stamps_s, default=from_s)
    cpu_s = {pid: cpu_between(samples, from_s, until_s) for pid, samples in usage.items()}
    worker = max(cpu_s, key=lambda pid: cpu_s[pid])
    return {
        "requests": requests,
        "cpu_s": cpu_s[worker],
        "cpu_all_s": sum(cpu_s.values()),
        "cpu_tokens": len(stamps_s),
        "rss_bytes": max(u.rss_bytes for u in usage[worker]),
    }


def cpu_between(samples: list[Usage], from_s: float, until_s: float) -> float:
    at_s, cpu_s = [u.at_s for u in samples], [u.cpu_s for u in samples]
    start, end = np.interp([from_s, until_s], at_s, cpu_s)
    return float(end - start)


if __name__ == "__main__":
    main()
