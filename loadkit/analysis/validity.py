"""May the numbers of this run be believed? Checks of the generator and of the run, each with its bound.

`invalid`: the load generator was the limit, or the run says nothing about the server. `warning`: read
the numbers with this in mind. Errors, refusals and slowness of the server are results, never a verdict.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pandas as pd

from loadkit.analysis import samples, text
from loadkit.analysis.facts import Facts
from loadkit.analysis.ledger import LedgerLine
from loadkit.analysis.metrics import METRICS
from loadkit.analysis.quantiles import Quantiles, quantiles
from loadkit.model import ServerMetric

MAX_SEND_LAG_S = 0.05
MAX_CPU_RATIO = 0.9
MAX_CPU_WAIT_RATIO = 0.3
MAX_SHARE_OF_SAMPLES = 0.1
_MOST_TOLD = 3
_COUNTED_IN_LEDGER = ("requests", "prompt_tokens", "generation_tokens")


class Check(NamedTuple):
    name: str
    verdict: Literal["ok", "warning", "invalid", "unknown"]
    text: str
    """What was found and the bound, in one sentence."""


@dataclass(frozen=True, slots=True)
class Validity:
    checks: tuple[Check, ...]

    @property
    def valid(self) -> bool:
        return not self.reasons

    @property
    def reasons(self) -> list[str]:
        """Why the run is invalid; empty when it is valid."""
        return [check.text for check in self.checks if check.verdict == "invalid"]

    @property
    def warnings(self) -> list[str]:
        return [check.text for check in self.checks if check.verdict == "warning"]


def checks_of_the_generator(facts: Facts) -> list[Check]:
    return [
        _ended(facts),
        _delivered(facts),
        _not_sent(facts),
        _send_lag(facts),
        _worker(facts, ServerMetric.WORKER_CPU_RATIO, MAX_CPU_RATIO, "worker CPU", text.share),
        _worker(
            facts,
            ServerMetric.WORKER_CPU_WAIT_RATIO,
            MAX_CPU_WAIT_RATIO,
            "worker wait for CPU",
            text.share,
            over="warning",  # what it costs shows as lag, and that has bounds of its own
        ),
        _worker(
            facts,
            ServerMetric.WORKER_LOOP_LAG_S,
            _lag_bound_s(facts),
            "worker loop lag",
            text.seconds,
        ),
        _workers_alive(facts),
    ]


def checks_of_the_target(facts: Facts, ledger: Sequence[LedgerLine]) -> list[Check]:
    return [
        _not_restarted(facts),
        *_emulator_on_time(facts),
        *(_balances(line) for line in ledger),
    ]


def _emulator_on_time(facts: Facts) -> list[Check]:
    """An emulated engine that cannot keep to its own clock is not the engine it stands for."""
    rows = samples.of(facts.server, ServerMetric.CLOCK_LATENESS_S)
    if rows.empty:
        return []
    return [_often_over(rows, MAX_SEND_LAG_S, "emulator lateness", text.seconds, "invalid")]


def _ended(facts: Facts) -> Check:
    state, why = facts.manifest.state, facts.manifest.ended_why or "no reason given"
    if state == "running":
        found = (
            f"the run was never ended: its command was killed, the last row is from {facts.end_s:.1f} s "
            "(or it is still running)"
        )
        return Check("run ended", "invalid", found)
    if state == "failed":
        return Check("run ended", "invalid", f"the run failed at {facts.end_s:.1f} s: {why}")
    if state == "stopped":
        found = (
            f"the run was stopped at {facts.end_s:.1f} s ({why}): it speaks for what came before"
        )
        return Check("run ended", "warning", found)
    return Check("run ended", "ok", f"ended by itself after {facts.end_s:.1f} s: {why}")


def _delivered(facts: Facts) -> Check:
    n, missing = len(facts.offered), len(facts.missing)
    if not n:
        return Check("schedule delivered", "invalid", "not one request was offered")
    if missing:
        lost = f"{missing:,} of {n:,} requests that were due have no row ({missing / n:.1%})"
        why = " (in flight, or just ended, when it was killed)" * (
            facts.manifest.state == "running"
        )
        return Check("schedule delivered", "invalid", f"{lost}; counted as dropped{why}")
    doubled = facts.duplicate_rows
    if doubled:
        return Check(
            "schedule delivered", "warning", f"{doubled} rows appear twice; each counted once"
        )
    return Check("schedule delivered", "ok", f"all {n:,} requests that were due have a row")


def _not_sent(facts: Facts) -> Check:
    """`dropped` rows that are there. A failed parent is the server's doing; all else is ours."""
    dropped = facts.offered[(facts.offered["status"] == "dropped") & ~facts.offered["missing"]]
    if dropped.empty:
        return Check("nothing held back", "ok", "no request was held back by the client")
    why = dropped["error"].fillna("no reason given")
    by_parent = why.str.contains("parent", case=False)
    ours = why[~by_parent].value_counts()
    if ours.empty:
        found = f"{len(dropped)} follow-up turns were never sent because their parent failed"
        return Check("nothing held back", "warning", found)
    texts = "; ".join(f"{n} x {reason}" for reason, n in ours.head(3).items())
    share = ours.sum() / len(facts.offered)
    found = f"{ours.sum()} requests ({share:.1%}) were never sent by the client: {texts}"
    return Check("nothing held back", "invalid", found)


def _lag_bound_s(facts: Facts) -> float:
    return float(facts.manifest.limits.get("max_send_lag_s") or MAX_SEND_LAG_S)


def send_lag(facts: Facts) -> Quantiles:
    return quantiles(METRICS["send_lag"].of(facts.attempts).to_numpy(float))


def _send_lag(facts: Facts) -> Check:
    lag, bound_s = send_lag(facts), _lag_bound_s(facts)
    if lag.p99 is None:
        return Check("send lag", "unknown", "no request was sent")
    found = (
        f"send lag p99 {text.seconds(lag.p99)}, bound {text.seconds(bound_s)} "
        f"(max {text.seconds(lag.max or 0.0)})"
    )
    return Check("send lag", "invalid" if lag.p99 > bound_s else "ok", found)


def _worker(
    facts: Facts,
    name: ServerMetric,
    bound: float,
    what: str,
    form: Callable[[float], str],
    over: Literal["invalid", "warning"] = "invalid",
) -> Check:
    """Over the bound in more than a tenth of the samples of any one worker."""
    return _often_over(samples.of(facts.workers, name), bound, what, form, over)


def _often_over(
    rows: pd.DataFrame,
    bound: float,
    what: str,
    form: Callable[[float], str],
    verdict: Literal["invalid", "warning"],
) -> Check:
    if rows.empty:
        return Check(what, "unknown", f"{what}: not recorded")
    over = (rows["value"] > bound).groupby(rows["target"]).mean()
    worst, share, peak = over.idxmax(), float(over.max()), float(rows["value"].max())
    found = (
        f"{what} over {form(bound)} in {share:.0%} of the samples of {worst}, bound "
        f"{MAX_SHARE_OF_SAMPLES:.0%} (peak {form(peak)})"
    )
    return Check(what, verdict if share > MAX_SHARE_OF_SAMPLES else "ok", found)


def _events(facts: Facts, *words: str) -> list[str]:
    """Events of the manifest that hold all the words, with their instant."""
    told = [(event.get("t_s"), str(event.get("what", ""))[:200]) for event in facts.manifest.events]
    return [
        what if t_s is None or f"{float(t_s):.1f} s" in what else f"{what} at {float(t_s):.1f} s"
        for t_s, what in told
        if all(word in what.lower() for word in words)
    ]


def _workers_alive(facts: Facts) -> Check:
    lost = _events(facts, "worker", "lost") + _events(facts, "worker", "died")
    if lost:
        return Check("workers", "invalid", "; ".join(lost))
    return Check("workers", "ok", "no worker was lost")


def _not_restarted(facts: Facts) -> Check:
    told = _events(facts, "restart") or [
        f"counter {fell.name} of {fell.target} went down at {fell.t_s:.1f} s"
        for fell in samples.resets(facts.server)[:_MOST_TOLD]
    ]
    if told:
        return Check(
            "target kept running", "invalid", "the target was restarted: " + "; ".join(told)
        )
    if facts.server.empty:
        found = "the target told no metrics: a restart would not be seen"
        return Check("target kept running", "unknown", found)
    return Check("target kept running", "ok", "no counter went down")


def _balances(line: LedgerLine) -> Check:
    name = f"ledger: {line.name.replace('_', ' ')}"
    if line.verdict == "unknown":
        return Check(name, "unknown", f"{name}: {line.explanation}")
    found = f"{name}: client {line.client:,}, server {line.server:,}"
    if line.verdict == "equal":
        return Check(name, "ok", found)
    found += f" ({line.difference:+,d}: {line.explanation})"
    if line.verdict == "explained":
        return Check(name, "ok", found)
    return Check(name, "invalid" if line.name in _COUNTED_IN_LEDGER else "warning", found)
