"""The table of `loadkit sim`: a row a policy and lane."""

from typing import Any

from rich.table import Table
from rich.text import Text

_COLUMNS = ("offered", "done", "refused", "wait p50", "p99", "max", "latency p50", "p99")


def policy_table(policies: list[dict[str, Any]], late: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy")
    table.add_column("lane")
    for name in (*_COLUMNS, f"> {late}", "in time", "evicted", "slot use"):
        table.add_column(name, justify="right")
    for numbers in policies:
        first = True
        for lane, of in numbers["lanes"].items():
            table.add_row(*_row(numbers, lane, of, first=first))
            first = False
    return table


def _row(numbers: dict[str, Any], lane: str, of: dict[str, Any], *, first: bool) -> list[Text]:
    wait, latency = of["wait_s"], of["latency_s"]
    cells = [
        numbers["policy"] if first else "",
        lane,
        f"{of['offered']:,}",
        f"{of['completed']:,}",
        f"{of['rejected'] + of['expired']:,}",
        *(_seconds(wait[name]) for name in ("p50", "p99", "max")),
        *(_seconds(latency[name]) for name in ("p50", "p99")),
        _share(of["late_share"]),
        _share(of["deadline_share"]),
        f"{of['preemptions']:,}",
        _share(numbers["slot_use"]) if first else "",
    ]
    return [Text(cell) for cell in cells]


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value * 1e3:.3g} ms" if 0 < value < 1 else f"{value:,.6g} s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.4g} %"
