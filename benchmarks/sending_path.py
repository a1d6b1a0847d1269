"""The sending-path table: loadkit and three other clients against a server of exact timing.

For every rate, each client in turn reads the same streams on the same schedule from a fresh
server; nothing else should run on the machine meanwhile. At the highest rate, where clients differ
most, they take turns several times and medians count: the pace of a shared machine drifts.
`python benchmarks/sending_path.py` prints the table, writes it under benchmarks/results/ and exits 1
when a promise is broken.
"""

import argparse
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import orjson
import psutil

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "clients"))

from bounds import PEERS, US, Check, check  # noqa: E402
from common import Plan  # noqa: E402
from measure import Cores, Row, Spread, measure, read_ledger, typical  # noqa: E402

SLACK_S = 120.0
"""What a client may take beyond its schedule."""
PROMPT_TOKENS = 64
QUIET_CORES = 0.1
"""CPU of other processes from which on a row is called doubtful."""
TITLES = {
    "requests": "`requests` under gevent",
    "fasthttp": "Locust FastHttpUser, `readline`",
    "aiohttp": "aiohttp, JSON per chunk",
    "loadkit": "**loadkit**",
}


@dataclass(slots=True)
class Server:
    url: str
    process: subprocess.Popen[str]
    ledger: Path
    cpu_s: float = 0.0
    """User and system time when it was stopped."""


@dataclass(slots=True)
class Bystanders:
    """CPU of all processes but this one's children."""

    began_s: float = field(default_factory=time.monotonic)
    cpu_s: float = field(default_factory=lambda: machine_cpu_s() - children_cpu_s())

    def cores(self) -> float:
        """Mean number of cores since the start; call it once our processes were waited for."""
        spent_s = machine_cpu_s() - children_cpu_s() - self.cpu_s
        return max(0.0, spent_s / (time.monotonic() - self.began_s))


def machine_cpu_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def exact_server(folder: Path, tokens: int, grid_ms: float) -> Iterator[Server]:
    """A fresh server, stopped at the end with its ledger written."""
    ledger = folder / "ledger.jsonl"
    command = [sys.executable, str(HERE / "exact_server.py")]
    command += ["--tokens", str(tokens), "--grid-ms", str(grid_ms), "--ledger", str(ledger)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = Server(process.stdout.readline().strip(), process, ledger)
        try:
            yield server
        finally:
            times = psutil.Process(process.pid).cpu_times()
            server.cpu_s = times.user + times.system
            process.send_signal(signal.SIGTERM)


def schedule(rate_rps: float, duration_s: float, seed: int) -> list[float]:
    """Poisson arrivals from 0, sorted, the same for every client."""
    rng = np.random.default_rng([seed, int(rate_rps * 1000)])
    gaps_s = rng.exponential(1 / rate_rps, int(rate_rps * duration_s * 1.5) + 50)
    offsets_s = np.cumsum(gaps_s) - gaps_s[0]
    return [float(t) for t in offsets_s[offsets_s < duration_s]]


def run_client(client: str, rate_rps: float, args: argparse.Namespace) -> Row:
    offsets_s = schedule(rate_rps, args.warmup + args.duration, args.seed)
    requests = [(f"r{i:06d}", offset_s) for i, offset_s in enumerate(offsets_s)]
    bystanders = Bystanders()
    with tempfile.TemporaryDirectory(prefix="sending-path-") as name:
        folder = Path(name)
        with exact_server(folder, args.tokens, args.grid_ms) as server:
            plan = Plan(server.url, args.tokens, PROMPT_TOKENS, args.warmup, requests)
            plan.write(folder / "plan.json")
            script = HERE / "clients" / f"{client}_client.py"
            command = [sys.executable, str(script), "plan.json", "record.json"]
            subprocess.run(command, cwd=folder, check=True, timeout=offsets_s[-1] + SLACK_S)
        return measure(
            client,
            rate_rps,
            orjson.loads((folder / "record.json").read_bytes()),
            read_ledger(server.ledger),
            measured_ids={name for name, offset_s in requests if offset_s >= args.warmup},
            cores=Cores(server.cpu_s / (args.warmup + args.duration), bystanders.cores()),
        )


COLUMNS = (
    "streams/s", "client", "rate achieved", "TTFT error ms, p50 / p99 / max",
    "ITL error ms, p50 / p99 / max", "send lag ms, p50 / p99", "arrival lag ms, p99",
    "CPU µs/token", "RSS MiB", "server late ms, p50 / p99",
)  # fmt: skip


def table(rows: list[Row]) -> str:
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(cells(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(row: Row) -> tuple[str, ...]:
    cpu = f"{row.cpu_us_per_token:.0f}"
    if row.cpu_all_us_per_token > row.cpu_us_per_token:
        cpu += f" (all processes {row.cpu_all_us_per_token:.0f})"
    return (
        f"{row.rate_rps:g}",
        TITLES[row.client],
        f"{row.achieved_share:.1%}",
        _three(row.ttft_error_ms),
        _three(row.itl_error_ms),
        _two(row.send_lag_ms),
        _ms(row.arrival_lag_ms.p99),
        cpu,
        f"{row.rss_mib:.0f}",
        _two(row.server_late_ms),
    )


def _two(spread: Spread) -> str:
    return f"{_ms(spread.p50)} / {_ms(spread.p99)}"


def _three(spread: Spread) -> str:
    return f"{_two(spread)} / {_ms(spread.max)}"


def _ms(value: float) -> str:
    """Three digits, down to a microsecond."""
    return f"{value:.{3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0}f}"


def machine() -> str:
    """What the numbers were taken on."""
    load = os.getloadavg()[0]
    packages = ("gevent", "locust", "geventhttpclient", "requests", "aiohttp", "uvloop")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} CPUs, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load average {load:.1f} before the start; {versions}"
    )


def doubts(row: Row) -> Iterator[str]:
    for why, n in row.errors.items():
        yield f"{n} requests not measured, {why}"
    if row.cores.foreign > QUIET_CORES:
        yield f"other processes took {row.cores.foreign:.1f} cores meanwhile"


def markdown(rows: list[Row], checks: list[Check], where: str, args: argparse.Namespace) -> str:
    notes = [f"- {row.rate_rps:g}/s {row.client}: {note}" for row in rows for note in doubts(row)]
    steps = f" in steps of {args.grid_ms:g} ms" if args.grid_ms else ""
    setting = (
        f"Poisson arrivals, {args.tokens} tokens a stream{steps}, {args.duration:g} s after "
        f"{args.warmup:g} s of warm-up, seed {args.seed}; medians of {args.rounds} rounds at the "
        f"highest rate. {where}."
    )
    parts = [
        "# Sending path",
        setting,
        table(rows),
        "\n".join(notes),
        "\n".join(f"- {c.line()}" for c in checks),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how exactly a client reads streams.")
    parser.add_argument("--rates", default="20,100,300", help="streams per second")
    parser.add_argument("--duration", type=float, default=20.0, help="measured seconds per client")
    parser.add_argument("--rounds", type=int, default=3, help="at the highest rate")
    parser.add_argument("--warmup", type=float, default=3.0, help="seconds before them")
    parser.add_argument("--clients", default=",".join((*PEERS, US)))
    parser.add_argument("--tokens", type=int, default=50, help="per stream")
    parser.add_argument("--grid-ms", type=float, default=1.0, help="server writes in steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--out", type=Path, default=HERE / "results")
    args = parser.parse_args()
    if unknown := set(args.clients.split(",")) - set(TITLES):
        parser.error(
            f"unknown client {', '.join(sorted(unknown))}: choose from {', '.join(TITLES)}"
        )
    return args


def turns(args: argparse.Namespace) -> Iterator[tuple[float, str]]:
    """Rates and clients in the order in which they run."""
    rates_rps = sorted(map(float, args.rates.split(",")))
    for rate_rps in rates_rps:
        for _ in range(args.rounds if rate_rps == rates_rps[-1] else 1):
            for client in args.clients.split(","):
                yield rate_rps, client


def main() -> int:
    args, where, failures = parse_args(), machine(), []
    rounds: dict[tuple[float, str], list[Row]] = {}
    for rate_rps, client in turns(args):
        print(f"{rate_rps:g}/s {client} …", file=sys.stderr, flush=True)
        try:
            rounds.setdefault((rate_rps, client), []).append(run_client(client, rate_rps, args))
        except subprocess.SubprocessError as error:
            failures.append(f"- {rate_rps:g}/s {client}: no row, {error}")
    rows = [typical(of_one) for of_one in rounds.values()]
    checks = check(rows)
    text = markdown(rows, checks, where, args) + "\n".join(failures)
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "sending_path.md").write_text(text, "utf-8")
    values = {
        "machine": where,
        "rows": [row.as_json() for row in rows],
        "rounds": [row.as_json() for of_one in rounds.values() for row in of_one],
        "checks": [c._asdict() | {"passed": c.passed} for c in checks],
    }
    (args.out / "sending_path.json").write_bytes(orjson.dumps(values, option=orjson.OPT_INDENT_2))
    return 0 if all(c.passed for c in checks) and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
