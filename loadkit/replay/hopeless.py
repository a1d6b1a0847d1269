"""Stop a run that can only end one way: so many requests have missed its SLO that the rest cannot help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadkit.analysis.metrics import METRICS
from loadkit.model import Slo
from loadkit.records import REQUESTS_SCHEMA, to_table


@dataclass(frozen=True, slots=True)
class StopRule:
    """Stop when `missed` requests of the SLO's lane that were due from `from_s` on have missed it."""

    slo: Slo
    from_s: float
    missed: int


class Misses:
    """Counts them as their rows come in: late, refused, failed or timed out."""

    def __init__(self, rule: StopRule) -> None:
        self._rule = rule
        self.count = 0

    @property
    def why_stop(self) -> str | None:
        if self.count < self._rule.missed:
            return None
        return f"{self.count:,} requests have missed the SLO, the rest could not change that"

    def take(self, rows: Sequence[Sequence[Any]]) -> None:
        frame = to_table(rows, REQUESTS_SCHEMA).to_pandas()
        slo = self._rule.slo
        frame = frame[(frame["lane"] == slo.lane) & (frame["scheduled_s"] >= self._rule.from_s)]
        late = METRICS[slo.metric].of(frame) > slo.threshold_s
        self.count += int((late | (frame["status"] != "ok")).sum())
