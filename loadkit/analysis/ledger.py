"""Client totals against the increases of the server's own counters.

A difference is `explained` when requests whose counting is uncertain (cut ones, ones at the edges of
the scraped window, an engine's own probes) can account for all of it, else `unexplained`.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import pandas as pd

from loadkit.analysis import samples
from loadkit.analysis.facts import Facts
from loadkit.analysis.lanes import total
from loadkit.analysis.metrics import counted_by_server
from loadkit.model import ServerMetric

CUT = ("truncated", "expired", "timeout", "error", "stream_error", "cancelled")
"""The engine may have counted these, wholly or partly: vLLM leaves out requests whose client left."""


class LedgerLine(NamedTuple):
    name: str
    client: int | None
    server: int | None
    difference: int | None
    """Server - client."""
    verdict: Literal["equal", "explained", "unexplained", "unknown"]
    explanation: str


class _Uncertain(NamedTuple):
    """How far the server may honestly differ, and the words for it."""

    fewer: float
    more: float
    why: tuple[str, ...]


class _Rows(NamedTuple):
    ok: pd.DataFrame
    cut: pd.DataFrame
    """Sent, not ok; and rows that a crash took, of which nobody knows."""
    edge: pd.DataFrame
    """ok, but ended before the first or after the last scrape."""


def ledger(facts: Facts) -> list[LedgerLine]:
    rows = _rows(facts)
    told = facts.attempts["preemptions"]
    rejected = int((facts.attempts["status"] == "rejected").sum())
    generated = total(rows.ok["output_tokens"].where(counted_by_server(rows.ok)))
    m = ServerMetric
    books = (
        ("requests", m.REQUESTS_FINISHED_TOTAL, len(rows.ok), _uncertain(facts, rows, len)),
        ("prompt_tokens", m.PROMPT_TOKENS_TOTAL, total(rows.ok["prompt_tokens"]),
         _uncertain(facts, rows, _prompt_tokens)),
        ("generation_tokens", m.GENERATION_TOKENS_TOTAL, generated,
         _uncertain(facts, rows, _output_tokens)),
        ("preemptions", m.PREEMPTIONS_TOTAL, total(told), _untold(facts)),
        ("rejections", m.REJECTIONS_TOTAL, rejected, _Uncertain(0, 0, ())),
    )  # fmt: skip
    return [_line(facts, *book) for book in books]


def _rows(facts: Facts) -> _Rows:
    sent = facts.attempts[facts.attempts["sent_s"].notna()]
    ok = sent[sent["status"] == "ok"]
    window = samples.scraped_window_s(facts.server) or (0.0, facts.end_s)
    edge = ok[(ok["sent_s"] < window[0]) | (ok["finished_s"] > window[1])]
    cut = sent[sent["status"].isin(CUT)]
    missing = facts.missing[facts.attempts.columns]
    return _Rows(ok, cut if missing.empty else pd.concat([cut, missing]), edge)


def _line(
    facts: Facts, name: str, counter: ServerMetric, client: int | None, uncertain: _Uncertain
) -> LedgerLine:
    gained = samples.increase(facts.server, counter)
    server = None if gained is None else round(gained)
    if server is None or client is None:
        return LedgerLine(name, client, server, None, "unknown", _unknown(client, server))
    difference = server - client
    if difference == 0:
        return LedgerLine(name, client, server, 0, "equal", "")
    why = "; ".join(uncertain.why)
    if -uncertain.fewer <= difference <= uncertain.more:
        return LedgerLine(name, client, server, difference, "explained", why)
    blame = _BLAME[difference > 0] + (f" (beyond: {why})" if why else "")
    return LedgerLine(name, client, server, difference, "unexplained", blame)


_BLAME = {
    True: "the server counted more than was sent: other traffic reached this target",
    False: "the server counted less than came back: it was restarted, or several servers share the address",
}


def _unknown(client: int | None, server: int | None) -> str:
    lacks = (
        (client, "the engine does not tell it per request"),
        (server, "the server exposes no such counter"),
    )
    return "; ".join(words for count, words in lacks if count is None)


def _uncertain(facts: Facts, rows: _Rows, amount: Callable[[pd.DataFrame], float]) -> _Uncertain:
    """`amount` measures rows in what the counter counts."""
    uncounted = rows.ok[:0] if amount is len else rows.ok[~counted_by_server(rows.ok)]
    probes = facts.end_s if _engine(facts).startswith("sglang") else 0.0
    causes = (
        (
            len(rows.cut),
            f"requests were cut or lost ({_statuses(rows.cut)}): they may have been counted",
        ),
        (len(rows.edge), "requests ran outside the scraped window"),
        (len(uncounted), "answers came without the server's token count"),
        (math.ceil(probes), "health probes at most, each a generation of one token"),
    )
    return _Uncertain(
        fewer=amount(rows.edge),
        more=amount(rows.cut) + amount(uncounted) + probes,
        why=tuple(f"{n} {what}" for n, what in causes if n),
    )


def _engine(facts: Facts) -> str:
    return str(facts.manifest.target.get("engine") or "")


def _untold(facts: Facts) -> _Uncertain:
    """Requests that ended without telling their preemptions may have had any number."""
    sent = facts.attempts[facts.attempts["sent_s"].notna()]
    silent = int(sent["preemptions"].isna().sum())
    why = (f"{silent} requests ended without telling their preemptions",) if silent else ()
    return _Uncertain(0.0, float("inf") if silent else 0.0, why)


def _prompt_tokens(rows: pd.DataFrame) -> float:
    return float(rows["prompt_tokens"].fillna(rows["prompt_tokens_planned"]).sum())


def _output_tokens(rows: pd.DataFrame) -> float:
    """A cut request may have generated up to what was asked."""
    return float(rows[["output_tokens", "output_tokens_planned"]].max(axis=1).sum())


def _statuses(rows: pd.DataFrame) -> str:
    return ", ".join(f"{n} {status}" for status, n in rows["status"].value_counts().items())
