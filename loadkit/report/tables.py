"""The tables of a run, as text cells: HTML, Markdown and the terminal print the same ones."""

from collections.abc import Sequence
from typing import NamedTuple

from loadkit.analysis import METRICS, LaneSummary, Quantiles, RunSummary, slo_text
from loadkit.model import Status
from loadkit.report import numbers

FEW = "†"
FEW_NOTE = f"{FEW} fewer than 100 values: the p99 is the largest of them."
_LEDGER_NAMES = {"requests": "requests finished"}
_LATENCY_ROWS = (
    "ttft",
    "queue_wait",
    "prefill",
    "tpot",
    "itl",
    "stall",
    "decode",
    "e2e",
    "send_lag",
    "connect",
)
_STATUS_ORDER: tuple[Status, ...] = (
    "ok", "truncated", "rejected", "expired", "timeout", "error", "stream_error", "cancelled", "dropped",
)  # fmt: skip


class Table(NamedTuple):
    """`columns` that begin with `<` hold text and are set left; the rest are numbers, set right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """(title, is text) per column."""
        return [(column.removeprefix("<"), column.startswith("<")) for column in self.columns]


def at_a_glance(lanes: Sequence[LaneSummary], title: str = "Lanes") -> Table:
    who = ("<lane", "<tenant") if any(lane.tenant for lane in lanes) else ("<lane",)
    rows = tuple(_glance(lane, tenants=len(who) > 1) for lane in lanes)
    few = any(FEW in cell for row in rows for cell in row)
    columns = (
        *who, "offered", "rate", "ok", "goodput", "in time", "TTFT p50", "TTFT p99",
        "queue wait p99", "prefill p50", "TPOT p50", "E2E p99",
    )  # fmt: skip
    return Table(title, columns, rows, FEW_NOTE if few else "")


def _glance(lane: LaneSummary, *, tenants: bool) -> tuple[str, ...]:
    values = lane.latencies
    return (
        *((lane.lane, lane.tenant or "") if tenants else (lane.lane,)),
        numbers.count(lane.offered),
        numbers.rate(lane.offered_rps),
        numbers.share(lane.completed / lane.offered),
        numbers.share(lane.goodput_share),
        numbers.share(lane.deadline_share),
        numbers.seconds(values["ttft"].p50),
        p99(values["ttft"]),
        p99(values["queue_wait"]),
        numbers.seconds(values["prefill"].p50),
        numbers.seconds(values["tpot"].p50),
        p99(values["e2e"]),
    )


def p99(values: Quantiles) -> str:
    return numbers.seconds(values.p99) + (FEW if values.n and values.few_samples else "")


def statuses(summary: RunSummary) -> Table:
    """Every status that occurred, per lane; the whole is what was offered."""
    seen = [s for s in _STATUS_ORDER if any(s in lane.statuses for lane in summary.lanes)]
    rows = tuple(
        (
            lane.lane,
            numbers.count(lane.offered),
            *(numbers.count(lane.statuses.get(status, 0)) for status in seen),
            numbers.count(lane.retries),
        )
        for lane in summary.lanes
    )
    note = "Each offered request is in exactly one status. Latencies cover ok requests only."
    return Table("What became of the requests", ("<lane", "offered", *seen, "retries"), rows, note)


def failures(summary: RunSummary) -> Table | None:
    """None when every request ended ok."""
    rows = tuple(
        (
            failure.lane,
            failure.status,
            numbers.UNKNOWN if failure.http_status is None else str(failure.http_status),
            numbers.count(failure.count),
            failure.error,
        )
        for failure in summary.failures
    )
    rest = summary.offered - summary.completed - sum(failure.count for failure in summary.failures)
    note = f"{numbers.count(rest)} more requests failed in rarer ways." if rest else ""
    columns = ("<lane", "<status", "HTTP", "requests", "<message")
    return Table("Why requests failed", columns, rows, note) if rows else None


def latencies(summary: RunSummary) -> Table:
    rows = tuple(
        (lane.lane, METRICS[name].title + _source(lane, name), *_spread(lane.latencies[name]))
        for lane in summary.lanes
        for name in _LATENCY_ROWS
        if lane.latencies[name].n
    )
    columns = ("<lane", "<metric", "values", "mean", "p50", "p90", "p99", "max")
    return Table("Latencies", columns, rows, FEW_NOTE if any(FEW in r[6] for r in rows) else "")


def _spread(values: Quantiles) -> tuple[str, ...]:
    middle = (numbers.seconds(v) for v in (values.mean, values.p50, values.p90))
    return (numbers.count(values.n), *middle, p99(values), numbers.seconds(values.max))


def _source(lane: LaneSummary, name: str) -> str:
    return f" (source: {lane.queue_wait_source})" if name == "queue_wait" else ""


def slos(summary: RunSummary) -> Table:
    verdicts = {True: "met", False: "NOT met", None: "cannot be told"}
    rows = tuple(
        (
            slo_text(result.slo),
            verdicts[result.met],
            numbers.seconds(result.value_s),
            numbers.share(result.within_share),
            result.why,
        )
        for result in summary.slos
    )
    note = (
        "Measured: the quantile over answered requests alone. Within: over all; a request without an "
        "answer counts as outside, one cut by the end of the run does not count."
    )
    return Table("SLOs", ("<SLO", "<verdict", "measured (answered)", "within", "<why"), rows, note)


def ledger(summary: RunSummary) -> Table:
    rows = tuple(
        (
            _LEDGER_NAMES.get(line.name, line.name.replace("_", " ")),
            numbers.count(line.client),
            numbers.count(line.server),
            _difference(line.difference),
            line.verdict,
            line.explanation,
        )
        for line in summary.ledger
    )
    note = "Client: sums over the rows. Server: how far its own counters rose during the run."
    columns = ("<counted", "client", "server", "difference", "<verdict", "<explanation")
    return Table("Ledger", columns, rows, note)


def _difference(value: int | None) -> str:
    if value is None:
        return numbers.UNKNOWN
    return f"{value:+,d}" if value else "0"


def littles_law(summary: RunSummary) -> Table | None:
    law = summary.littles_law
    if law is None:
        return None
    sampled = "mean of running + waiting samples"
    product = f"{numbers.rate(law.arrival_rps)} \N{MULTIPLICATION SIGN} {numbers.seconds(law.sojourn_mean_s)}"
    rows = (
        ("client", _IN_FLIGHT_SOURCES[law.in_flight_source], numbers.level(law.in_flight_mean), ""),
        ("λ·W", product, numbers.level(law.product), numbers.signed_share(law.difference_share)),
        (
            "server",
            sampled,
            numbers.level(law.server_mean),
            numbers.signed_share(law.server_difference_share),
        ),
    )
    note = f"{_law_window(summary)}: {law.verdict}."
    columns = ("<mean number in the system", "<from", "L", "difference")
    return Table("Little's law", columns, rows, note)


_IN_FLIGHT_SOURCES = {
    "samples": "in flight, mean of the workers' samples",
    "records": "in flight, integrated over the rows",
}


def _law_window(summary: RunSummary) -> str:
    law = summary.littles_law
    if law is None:
        return ""
    what = {
        "whole run": "The whole run, which began and ended empty",
        "steady part": "The requests sent in the middle of the run",
    }
    return f"{what[law.window]}, {numbers.instant(law.start_s)} to {numbers.instant(law.end_s)}"


def checks(summary: RunSummary) -> Table:
    order = {"invalid": 0, "warning": 1, "unknown": 2, "ok": 3}
    ranked = sorted(summary.validity.checks, key=lambda check: order[check.verdict])
    rows = tuple((check.name, check.verdict, check.text) for check in ranked)
    return Table("What was checked", ("<check", "<result", "<found"), rows)


def server(summary: RunSummary) -> Table | None:
    means = summary.server
    known = (
        ("running, time mean", means.running, numbers.level),
        ("slots in use, time mean", means.slot_use_share, numbers.share),
        ("waiting, time mean", means.waiting, numbers.level),
        ("waiting, peak", means.waiting_peak, numbers.count),
        ("KV cache in use, time mean", means.kv_usage_ratio, numbers.share),
        ("KV cache in use, peak", means.kv_usage_peak_ratio, numbers.share),
        ("queue wait, mean of its histogram", means.queue_wait_s, numbers.seconds),
        ("prefill, mean of its histogram", means.prefill_s, numbers.seconds),
        ("TTFT, mean of its histogram", means.ttft_s, numbers.seconds),
        ("E2E, mean of its histogram", means.e2e_s, numbers.seconds),
        ("preemptions", summary.preemptions.total, numbers.count),
        ("tokens computed again", summary.preemptions.recomputed_tokens, numbers.count),
    )
    rows = tuple((name, form(value)) for name, value, form in known if value is not None)
    note = "As the server tells it. Its histograms hold finished requests only and start at its own door."
    return Table("The server's own numbers", ("<number", "value"), rows, note) if rows else None
