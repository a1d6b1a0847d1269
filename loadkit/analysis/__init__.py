"""Runs on disk → small dataclasses. Reads files alone and can reach no driver and no server."""

from loadkit.analysis.as_json import to_json
from loadkit.analysis.failures import Failure
from loadkit.analysis.gaps import GapSeries
from loadkit.analysis.lanes import LaneSummary
from loadkit.analysis.ledger import LedgerLine
from loadkit.analysis.littles_law import LittlesLaw
from loadkit.analysis.metrics import METRICS, Metric
from loadkit.analysis.quantiles import Quantiles
from loadkit.analysis.slo import SloResult, slo_text
from loadkit.analysis.summary import RunSummary, exit_code, summarize
from loadkit.analysis.timeline import LaneSeries, Timeline
from loadkit.analysis.validity import Check, Validity

__all__ = [
    "METRICS",
    "Check",
    "Failure",
    "GapSeries",
    "LaneSeries",
    "LaneSummary",
    "LedgerLine",
    "LittlesLaw",
    "Metric",
    "Quantiles",
    "RunSummary",
    "SloResult",
    "Timeline",
    "Validity",
    "exit_code",
    "slo_text",
    "summarize",
    "to_json",
]
