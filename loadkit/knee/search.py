"""Which step comes next. Pure: from what was measured to what to measure, so a search can be resumed.

Baseline and bracket tell roughly where the crossing lies; then every step is a fresh part of the trace
close to where it is now believed to be; a step beyond it shows the plateau, and a soak may confirm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loadkit.analysis.knee.crossing import Crossing, crossing
from loadkit.analysis.knee.findings import BASELINE_STEPS, find, low_load
from loadkit.analysis.knee.steps import Role, Step, StepPlan
from loadkit.model import Slo

BRACKET_FACTOR = 1.6
BRACKET_MISSED = 3.0
"""A bracket ends above so many times the share that the SLO allows."""
DOWNWARD_STEPS = 5
UPWARD_STEPS = 15
"""A thousand times the start."""
AROUND = (0.96, 1.04, 1.0)
"""Steps are spread a little around the estimate, or its slope could not be known."""
DEFAULT_SAMPLES = 16
SAMPLE_WARMS = 3.0
"""Times the warm-up: close to the knee an empty server takes a minute to reach its usual queue, and steps
that are measured before miss too little."""
OVERLOAD = 1.2
OVERLOAD_FACTOR = 1.35
SATURATION_STEPS = 3
SATURATION_TRIES = 5


@dataclass(frozen=True, slots=True)
class Search:
    slo: Slo
    start_rps: float
    """Where the bracket begins: a load known or hoped to be easy."""
    warm_s: float = 20.0
    measure_s: float = 60.0
    samples: int = DEFAULT_SAMPLES
    """Steps close to where it crosses, after bracket, baseline and saturation."""
    rates_rps: tuple[float, ...] = ()
    """A fixed ladder instead of a search."""
    soak_s: float = 0.0
    """How long the confirmation at the lower bound takes; 0 = none."""


def next_step(search: Search, done: Sequence[Step], *, enough: bool = False) -> StepPlan | None:
    """None when all is done. `enough`: no time is left for more than the confirmation.

    An invalid step says nothing of the server: it is planned again.
    """
    done = [step for step in done if step.valid]
    searching = [_ladder] if search.rates_rps else [_bracket, _baseline, _saturate, _sample]
    for phase in [_soak] if enough else [*searching, _soak]:
        plan = phase(search, done)
        if plan is not None:
            return plan
    return None


def estimate(search: Search, done: Sequence[Step]) -> Crossing:
    """The capacity at the SLO as far as it is known."""
    shares = [step.missed(search.slo.threshold_s) for step in done if step.valid]
    return crossing(shares, 1 - search.slo.quantile)


def is_over(search: Search, step: Step) -> bool:
    share = step.missed(search.slo.threshold_s)
    misses = share.requests > 0 and share.missed >= missed_when_over(search, share.requests)
    return misses or step.stability == "unstable"


def missed_when_over(search: Search, requests: int) -> int:
    """The fewest misses among so many requests that put a step over."""
    return math.floor(BRACKET_MISSED * (1 - search.slo.quantile) * requests + 1e-9) + 1


def _ladder(search: Search, done: Sequence[Step]) -> StepPlan | None:
    left_rps = search.rates_rps[len(_of(done, "ladder")) :]
    return _plan(search, "ladder", left_rps[0]) if left_rps else None


def _bracket(search: Search, done: Sequence[Step]) -> StepPlan | None:
    """Up from the start until a step is over; where the first one is over already, down first."""
    tried = _of(done, "bracket")
    if not tried:
        return _plan(search, "bracket", search.start_rps)
    if all(is_over(search, step) for step in tried):
        if len(tried) > DOWNWARD_STEPS:
            return None
        lowest_rps = min(step.plan.rate_rps for step in tried)
        return _plan(search, "bracket", lowest_rps / BRACKET_FACTOR**2)
    if _brackets(search, done) or len(tried) >= UPWARD_STEPS:
        return None
    return _plan(search, "bracket", tried[-1].plan.rate_rps * BRACKET_FACTOR)


def _brackets(search: Search, done: Sequence[Step]) -> bool:
    """One step was over, and one was not: there is a crossing to look for."""
    over = [is_over(search, step) for step in _of(done, "bracket")]
    return any(over) and not all(over)


def _baseline(search: Search, done: Sequence[Step]) -> StepPlan | None:
    found = estimate(search, done)
    if found.rate_rps is None or len(low_load(done, found)) >= BASELINE_STEPS:
        return None
    if len(_of(done, "baseline")) >= BASELINE_STEPS:
        return None
    return _plan(search, "baseline", found.rate_rps / 4)


def _sample(search: Search, done: Sequence[Step]) -> StepPlan | None:
    """Three steps around the capacity, then one where the latency turns up, and so on."""
    count = len(_of(done, "sample"))
    if count >= search.samples or not _brackets(search, done):
        return None
    turn, place = divmod(count, len(AROUND) + 1)
    around = AROUND[place] if place < len(AROUND) else 1.0
    found = estimate(search, done) if place < len(AROUND) else _turn_up(search, done)
    rate_rps = found.rate_rps or found.low_rps or found.high_rps
    if rate_rps is None:
        return None
    tried_rps = [step.plan.rate_rps for step in done]
    rate_rps = min(max(rate_rps, min(tried_rps) / 2), 1.3 * max(tried_rps))
    return _plan(search, "sample", rate_rps * (around if turn % 2 == 0 else 2 - around))


def _turn_up(search: Search, done: Sequence[Step]) -> Crossing:
    """As far as it is known; the capacity where it is not."""
    found = find(done, search.slo).turn_up
    if found.rps is None:
        return estimate(search, done)
    return Crossing("found", found.rps, found.low_rps, found.high_rps)


def _saturate(search: Search, done: Sequence[Step]) -> StepPlan | None:
    """Until three steps were overloaded for certain; a try that was not is followed by one well beyond."""
    found = estimate(search, done)
    tries = _of(done, "saturation")
    overloaded = sum(step.overloaded for step in done)
    if overloaded >= SATURATION_STEPS or len(tries) >= SATURATION_TRIES or not found.rate_rps:
        return None
    too_weak = sum(not step.overloaded for step in tries)
    return _plan(search, "saturation", found.rate_rps * OVERLOAD * OVERLOAD_FACTOR**too_weak)


def _soak(search: Search, done: Sequence[Step]) -> StepPlan | None:
    low_rps = find([s for s in done if s.plan.role != "soak"], search.slo).capacity.low_rps
    if not search.soak_s or low_rps is None or _of(done, "soak"):
        return None
    return StepPlan("soak", low_rps, SAMPLE_WARMS * search.warm_s, search.soak_s)


def _plan(search: Search, role: Role, rate_rps: float) -> StepPlan:
    warm_s = search.warm_s * (SAMPLE_WARMS if role in {"sample", "ladder"} else 1.0)
    return StepPlan(role, rate_rps, warm_s, search.measure_s)


def _of(done: Sequence[Step], role: Role) -> list[Step]:
    return [step for step in done if step.plan.role == role]
