"""A policy while it is being read, and what becomes of it when all words are there."""

from dataclasses import dataclass, field, replace
from functools import partial

from loadkit.core.admission import Admission, all_of, always
from loadkit.core.orders import Order, aged, by_priority, fair, fcfs, within_lanes
from loadkit.core.policies import (
    ORDERS,
    CoDel,
    Headroom,
    LaneRule,
    Policy,
    Victim,
    last_started,
    least_urgent,
)
from loadkit.core.sequence import Sequence
from loadkit.core.victims import VICTIMS, Preemption, VictimOrder


class PolicyError(ValueError):
    """What was written is no policy; `hint` says what would be."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class Draft:
    """A policy being read, word by word."""

    orders: list[str] = field(default_factory=list)
    by_lane: bool = False
    """Said, or implied by a word that knows batch from interactive."""
    implied: bool = False
    aging_s: float | None = None
    headroom: Headroom | None = None
    floor: int = 0
    preempt: bool = False
    victim: str | None = None
    min_run_s: float = 0.0
    recovery: str = "recompute"
    admits: list[Admission] = field(default_factory=list)
    estimates: bool = False
    drop_expired: bool = False
    lifo_after_s: float | None = None
    codel: CoDel | None = None
    weights: dict[str, float] = field(default_factory=dict)
    static: bool = False
    favour: str = "decode"
    lanes: dict[str, LaneRule] = field(default_factory=dict)


def built(name: str, draft: Draft) -> Policy:
    by_lane = draft.by_lane or (draft.implied and not draft.orders)
    preemption = None
    if draft.preempt:
        victims = VICTIMS[draft.victim or "youngest"]
        preemption = Preemption(victims, draft.min_run_s, draft.recovery)  # type: ignore[arg-type]
    elif draft.min_run_s or draft.recovery != "recompute":
        raise PolicyError("min-run and swap say how to evict", hint="add preempt")
    order = _order(draft, by_lane=by_lane)
    is_fair = "fair" in draft.orders or any(rule.order is fair for rule in draft.lanes.values())
    if draft.weights and not is_fair:
        raise PolicyError("a weight without the order it is for", hint="add fair")
    return Policy(
        name=name,
        order=order,
        victim=_victim_rule(draft.victim, order),
        admit=all_of(*draft.admits) if draft.admits else always,
        drop_expired=draft.drop_expired,
        headroom=draft.headroom,
        floor=draft.floor,
        preemption=preemption,
        lifo_after_s=draft.lifo_after_s,
        codel=draft.codel,
        weights=draft.weights if is_fair else None,
        estimates=draft.estimates,
        static=draft.static,
        favour=draft.favour,  # type: ignore[arg-type]
        lanes=_lanes(draft, by_lane=by_lane),
    )


def _order(draft: Draft, *, by_lane: bool) -> Order:
    kinds = {ORDERS[name] for name in draft.orders}
    if len(kinds) > 1:
        raise PolicyError(
            f"two orders at once: {', '.join(draft.orders)}", hint="one, with or without priority"
        )
    inner = kinds.pop() if kinds else fcfs
    if draft.lifo_after_s is not None and inner is not fcfs:
        raise PolicyError("adaptive-lifo turns arrival order round", hint="leave out the order")
    if draft.aging_s is None:
        return within_lanes(inner) if by_lane else inner
    if not by_lane or inner is not fcfs:
        raise PolicyError("aging raises a priority", hint="write priority,aging=1h")
    return aged(draft.aging_s)


def _lanes(draft: Draft, *, by_lane: bool) -> dict[str, LaneRule]:
    """Under lane priority a lane's own order holds inside the lane; without, keys must be one kind."""
    rules = draft.lanes
    if not by_lane and any(rule.order for rule in rules.values()):
        raise PolicyError("an order of one lane needs lanes apart", hint="add priority")
    return {
        lane: replace(rule, order=within_lanes(rule.order)) if rule.order else rule
        for lane, rule in rules.items()
    }


def _victim_rule(named: str | None, order: Order) -> Victim:
    """Whose blocks to take. Never those of the first in order: it alone makes sure that work ends."""
    if order is fcfs and named is None:
        return last_started
    if order is by_priority and named is None:
        return least_urgent
    return partial(_any_but_the_first, order, VICTIMS[named] if named else None)


def _any_but_the_first(
    order: Order, victims: VictimOrder | None, running: list[Sequence]
) -> Sequence:
    if victims is None or len(running) == 1:
        return max(running, key=order)
    first = min(running, key=order)
    return min((seq for seq in reversed(running) if seq is not first), key=victims)
