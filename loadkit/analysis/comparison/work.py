"""Was a lane given the same work in two runs? The same requests at the same instants may ask for less.

A number that counts other work is told, and never judged: it says what the work does, not the server.
"""

from collections.abc import Mapping
from typing import Any

from loadkit.analysis.comparison.settings import text
from loadkit.model import BATCH
from loadkit.records import Manifest


def why_other_work(a: Manifest, b: Manifest, lane: str | None = None) -> str:
    """Empty when `lane` (None = any of them) was given the same; else the reason, b against a."""
    ours, theirs = service_factors(a), service_factors(b)
    lanes = sorted({*ours, *theirs} if lane is None else {lane})
    longer = {name: theirs.get(name, 1.0) / ours.get(name, 1.0) for name in lanes}
    told = [
        f"{name} jobs are {_times(times)} as long" for name, times in longer.items() if times != 1
    ]
    return ", ".join(told) or _other_span(a, b)


def service_factors(manifest: Manifest) -> Mapping[str, float]:
    """Lane → factor on its service times; 1 where a lane is missing."""
    told: Mapping[str, float] | None = manifest.schedule.get("service_factors")
    if told is not None:
        return told
    return {BATCH: float(manifest.transforms.get("batch_service") or 1.0)}


def _times(factor: float) -> str:
    return "half" if factor == 0.5 else "twice" if factor == 2 else f"{factor:.3g}x"


def _other_span(a: Manifest, b: Manifest) -> str:
    """Where one run stops earlier, it counts less of everything."""
    spans_s: list[Any] = [manifest.limits.get("horizon_s") for manifest in (a, b)]
    if spans_s[0] == spans_s[1] or any("horizon_s" not in m.limits for m in (a, b)):
        return ""
    told = [text("horizon_s", span_s) for span_s in spans_s]
    return f"simulated up to another instant (horizon {told[1]} against {told[0]})"
