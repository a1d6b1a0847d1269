"""Ten lines for the terminal."""

from rich.text import Text

from loadkit.analysis import LaneSummary, RunSummary, slo_text
from loadkit.report import numbers, words
from loadkit.report.tables import FEW, p99

_MOST_LINES = 10
_MOST_REASONS = 3
_SHOWN_P99 = ("ttft", "queue_wait", "e2e")
_MOST_NAME_CHARS = 40


def terminal_summary(summary: RunSummary) -> Text:
    """The verdict with its reasons, what was delivered, a line per lane, SLOs, where the report lies."""
    reasons, warnings = summary.validity.reasons, summary.validity.warnings
    lines = [_verdict(summary), *_some(reasons, "-", _MOST_REASONS), *_some(warnings, "~", 1)]
    lines += [_delivered(summary)]
    where = Text(f"report   {summary.path / 'report' / 'index.html'}")
    rest = [*_slos(summary), _server(summary), where]
    room = _MOST_LINES - len(lines) - len(rest)
    lines += _lanes(summary.lanes, room)
    return Text("\n").join([*lines, *rest])


def _verdict(summary: RunSummary) -> Text:
    return Text(words.verdict(summary), "bold green" if summary.validity.valid else "bold red")


def _some(texts: list[str], mark: str, most: int) -> list[Text]:
    """The first of the reasons (-) or warnings (~); the last one shown counts the hidden."""
    shown = [Text(f"  {mark} {text}") for text in texts[:most]]
    hidden = len(texts) - most
    return [*shown[:-1], Text(f"{shown[-1]} (and {hidden} more)")] if hidden > 0 else shown


def _delivered(summary: RunSummary) -> Text:
    counts = f"{numbers.count(summary.offered)} requests over {numbers.seconds(summary.due_span_s)}"
    lag = f"send lag p99 {numbers.seconds(summary.send_lag.p99)}"
    few = f" ({FEW} fewer than 100 values)" if any(_few(lane) for lane in summary.lanes) else ""
    return Text(
        f"offered  {counts}, {numbers.count(summary.completed)} answered in full, {lag}{few}"
    )


def _few(lane: LaneSummary) -> bool:
    return any(FEW in p99(lane.latencies[name]) for name in _SHOWN_P99)


def _lanes(lanes: tuple[LaneSummary, ...], room: int) -> list[Text]:
    """As many as fit; the last line then tells how many do not."""
    room = max(room, 1)
    width = max((len(_name(lane)) for lane in lanes), default=0)
    shown = lanes if len(lanes) <= room else lanes[: room - 1]
    hidden = len(lanes) - len(shown)
    more = [Text(f"and {hidden} more lanes, see the report")] if hidden else []
    return [*(_lane(lane, width) for lane in shown), *more]


def _name(lane: LaneSummary) -> str:
    name = " ".join(lane.lane.split())
    return name if len(name) <= _MOST_NAME_CHARS else name[: _MOST_NAME_CHARS - 1] + "…"


def _lane(lane: LaneSummary, width: int) -> Text:
    ttft, wait = lane.latencies["ttft"], lane.latencies["queue_wait"]
    parts = [
        f"{_name(lane):<{width}}  {numbers.share(lane.completed / lane.offered)} ok",
        f"TTFT p50 {numbers.seconds(ttft.p50)} p99 {p99(ttft)}",
        f"queue wait p99 {p99(wait)}",
        f"E2E p99 {p99(lane.latencies['e2e'])}",
    ]
    if lane.goodput_share is not None:
        parts.append(f"goodput {numbers.share(lane.goodput_share)}")
    if lane.deadline_share is not None:
        parts.append(f"in time {numbers.share(lane.deadline_share)}")
    return Text(", ".join(parts))


def _slos(summary: RunSummary) -> list[Text]:
    if not summary.slos:
        return []
    missed = [result for result in summary.slos if result.met is False]
    untold = [result for result in summary.slos if result.met is None]
    if not missed and not untold:
        return [Text(f"SLOs     all {len(summary.slos)} met")]
    first, *more = [*missed, *untold]
    found = f"{numbers.seconds(first.value_s)} over answered requests, " if missed else ""
    others = f" (and {len(more)} more)" if more else ""
    verdict = ("not met", "bold red") if missed else ("cannot be told", "bold yellow")
    return [
        Text.assemble("SLOs     ", verdict, f": {slo_text(first.slo)}; {found}{first.why}{others}")
    ]


def _server(summary: RunSummary) -> Text:
    odd = [line.name.replace("_", " ") for line in summary.ledger if line.verdict == "unexplained"]
    known = sum(line.verdict != "unknown" for line in summary.ledger)
    books = f"balances ({known} of {len(summary.ledger)} known)" if known else "unknown"
    if odd:
        books = f"does not balance: {', '.join(odd)}"
    return Text(f"server   preemptions {numbers.count(summary.preemptions.total)}, ledger {books}")
