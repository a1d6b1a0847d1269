"""What a user asks of one replay."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadkit.model import Slo, Target
from loadkit.replay.hopeless import StopRule
from loadkit.schedule import Transforms


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    trace: Path
    target: Target
    output: Path
    transforms: Transforms = field(default_factory=Transforms)
    trace_format: str | None = None
    slos: Sequence[Slo] = ()
    workers: int = 1
    timeout_s: float = 600.0
    """Per request, from its due instant."""
    max_in_flight: int | None = None
    retries: int = 0
    max_send_lag_s: float = 0.05
    """The p99 of send lag above which a run is invalid."""
    metrics_urls: Sequence[str] = ()
    """Where to scrape; empty = the target's own /metrics."""
    scrape: bool = True
    web_port: int = 0
    """Port of Locust's web interface on loopback; 0 = none."""
    attached: bool = False
    """The driver is the Locust process at our standard streams, not one that we start."""
    stop_rule: StopRule | None = None
    """None = to the end, whatever comes."""
    command: Sequence[str] = ()
    """The command line as typed, for the manifest."""
