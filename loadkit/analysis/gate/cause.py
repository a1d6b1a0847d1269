"""Why a first token comes later: it waited longer, or it was computed more slowly."""

from loadkit.analysis.gate.loads import Load

_SHARE = 0.6
"""Of the loss that one part must explain to be named."""


def cause(load: Load, lane: str, quantile: float) -> str:
    """From the engine's own split; empty where it tells none."""
    parts = {
        "queue wait": _change_s(load, lane, "queue_wait", quantile),
        "prefill": _change_s(load, lane, "prefill", quantile),
    }
    known = {name: change for name, change in parts.items() if change is not None and change > 0}
    if not known:
        return ""
    name, most = max(known.items(), key=lambda part: part[1])
    if most < _SHARE * sum(known.values()):
        return "queue wait and prefill"
    return name


def _change_s(load: Load, lane: str, metric: str, quantile: float) -> float | None:
    base = load.base.mean((lane, (metric, quantile)))
    new = load.new.mean((lane, (metric, quantile)))
    return None if base is None or new is None else new - base
