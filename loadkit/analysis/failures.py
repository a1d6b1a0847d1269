"""Why requests did not end ok: the same complaint of the same lane counted once, the commonest first."""

import re
from dataclasses import dataclass

import pandas as pd

from loadkit.analysis.facts import Facts

MOST_FAILURES = 10
_LONGEST_ERROR = 200
_UNTOLD = "no reason given"


@dataclass(frozen=True, slots=True)
class Failure:
    lane: str
    status: str
    http_status: int | None
    error: str
    """The first such message, on one line and at most 200 characters; the others differ in digits at most."""
    count: int


def failures(facts: Facts) -> list[Failure]:
    """At most `MOST_FAILURES` groups of offered requests, by their last attempt."""
    bad = facts.offered[facts.offered["status"] != "ok"]
    error = bad["error"].map(_one_line).astype(object)
    alike = pd.DataFrame(
        {
            "lane": bad["lane"],
            "status": bad["status"],
            "http_status": bad["http_status"].astype(float),
            "shape": error.map(lambda text: re.sub(r"\d+", "#", text)),
            "error": error,
        }
    )
    groups = alike.groupby(["lane", "status", "http_status", "shape"], dropna=False)["error"]
    found = groups.agg(["first", "size"]).reset_index()
    found = found.sort_values("size", ascending=False, kind="stable").head(MOST_FAILURES)
    return [
        Failure(str(lane), str(status), None if pd.isna(code) else int(code), str(text), int(n))
        for lane, status, code, _, text, n in found.itertuples(index=False)
    ]


def _one_line(text: object) -> str:
    if not isinstance(text, str):
        return _UNTOLD
    line = " ".join(text[: 4 * _LONGEST_ERROR].split())
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}…"
