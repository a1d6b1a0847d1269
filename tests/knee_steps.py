"""Hand-made steps of a search."""

from typing import Any

import numpy as np

from loadkit.analysis.knee.steps import Role, Step, StepPlan, Use
from loadkit.model import Slo

SLO = Slo("interactive", "ttft", 0.99, 1.0)
FAST_S, LATE_S = 0.1, 2.0


def step(rate_rps: float, missed: int = 0, requests: int = 1000, **more: Any) -> Step:
    """`missed` of the requests take LATE_S, the others FAST_S."""
    latency_s = np.full(requests, FAST_S)
    latency_s[:missed] = LATE_S
    role: Role = more.pop("role", "sample")
    values: dict[str, Any] = {
        "plan": StepPlan(role, rate_rps, 20.0, 60.0),
        "latency_s": latency_s,
        "queue_wait_s": np.empty(0),
        "tpot_s": np.empty(0),
        "e2e_s": latency_s,
        "completed_rps": rate_rps,
        "rejected": 0,
        "preemptions": None,
        "stability": "stable",
        "overloaded": False,
        "use": Use(),
        "running": None,
        "most_running": None,
        "in_system": None,
        "littles_law": None,
        "valid": True,
    }
    return Step(**(values | more))
