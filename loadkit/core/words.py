"""The policy language: `reserve:8+preempt`, `priority,aging=1h,floor=8`, or the same as TOML.

Words are joined by `+` or `,`; a value follows `:` or `=`; `batch.queue=100` says it of one lane.
Whatever is not known is an error that lists what is.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from loadkit.core.admission import (
    Admission,
    all_of,
    always,
    lane_bound,
    meets_deadline,
    queue_bound,
    wait_bound,
)
from loadkit.core.orders import LANE_LEVELS, Order, aged, by_priority, fair, fcfs, within_lanes
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

_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LANE_WORDS = {"order", "queue", "adaptive-lifo", "codel"}


class PolicyError(ValueError):
    """What was written is no policy; `hint` says what would be."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class _Draft:
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


_Word = Callable[[_Draft, str], None]


def parse_policy(text: str) -> Policy:
    """`reserve:8+preempt` → Policy. Raises PolicyError."""
    draft = _Draft()
    words = re.split(r"[+,]", text.strip())
    if not all(word.strip() for word in words):
        raise PolicyError(f"{text!r} is not a policy", hint=f"words joined by + or ,: {_known()}")
    for word in words:
        name, value = re.fullmatch(r"([^:=]*)[:=]?(.*)", word.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
        _apply(draft, name, value)
    return _built(text.strip(), draft)


def policy_from_toml(text: str, name: str) -> Policy:
    """The same words as keys, with tables `lane.NAME` and `weights`. Raises PolicyError.

    `order = ["priority", "sjf"]`, `reserve = 8`, `preempt = true`, `[lane.batch]` `queue = 100`.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not valid TOML ({error})", hint='for example: reserve = "8"') from error
    draft = _Draft()
    for word, value in _flat(values):
        _apply(draft, word, value)
    return _built(str(values.get("name", name)), draft)


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if key == "name":
            continue
        if key == "lane" and isinstance(value, dict):
            for lane, rules in value.items():
                yield from ((f"{lane}.{word}", text) for word, text in _flat(_table(rules, lane)))
        elif key == "weights":
            yield from ((f"weight.{who}", str(n)) for who, n in _table(value, key).items())
        elif value is True:
            yield key, ""
        elif value is not False:
            for one in value if isinstance(value, list) else [value]:
                yield key, str(one)


def _table(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError(f"{name!r} must be a TOML table", hint="[weights]  acme = 2")
    return value


def _apply(draft: _Draft, name: str, value: str) -> None:
    place, dot, inner = name.partition(".")
    if name in WORDS:
        WORDS[name](draft, value)
    elif dot and place == "weight" and inner:
        draft.weights[inner] = _positive(value, name)
    elif dot and inner in _LANE_WORDS:
        draft.lanes[place] = _lane_rule(draft.lanes.get(place, LaneRule()), inner, value)
    else:
        raise PolicyError(f"unknown policy word {name[:40]!r}", hint=f"known: {_known()}")


def _lane_rule(rule: LaneRule, word: str, value: str) -> LaneRule:
    if word == "order":
        return replace(rule, order=ORDERS[_one_of(value, ORDERS, "order of a lane")])
    if word == "queue":
        return replace(rule, admit=all_of(rule.admit, lane_bound(_whole(value, "queue"))))
    if word == "codel":
        return replace(rule, codel=_codel(value))
    return replace(rule, lifo_after_s=_seconds(value or "1s"))


def _built(name: str, draft: _Draft) -> Policy:
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


def _order(draft: _Draft, *, by_lane: bool) -> Order:
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


def _lanes(draft: _Draft, *, by_lane: bool) -> dict[str, LaneRule]:
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


def _flag(name: str, *, lanes: bool = False) -> _Word:
    def word(draft: _Draft, value: str) -> None:
        if value:
            raise PolicyError(f"{name} takes no value, not {value[:40]!r}", hint=f"write {name}")
        setattr(draft, name, True)
        draft.implied |= lanes

    return word


def _an_order(name: str) -> _Word:
    def word(draft: _Draft, value: str) -> None:
        if value:
            raise PolicyError(f"{name} takes no value, not {value[:40]!r}", hint=f"write {name}")
        draft.orders.append(name)

    return word


def _priority(draft: _Draft, value: str) -> None:
    if value:
        raise PolicyError(f"priority takes no value, not {value[:40]!r}", hint="write priority")
    draft.by_lane = True


def _named_order(draft: _Draft, value: str) -> None:
    """TOML's `order = …`."""
    name = _one_of(value, {**ORDERS, "priority": None, "adaptive-lifo": None}, "order")
    WORDS[name](draft, "")


def _reserve(draft: _Draft, value: str) -> None:
    match = re.fullmatch(r"(\d{1,9})(slots?|blocks?|tokens?)?", value)
    if not match:
        raise PolicyError(
            f"reserve of {value[:40]!r}", hint="reserve:8, reserve:512blocks, reserve:8192tokens"
        )
    unit = (match[2] or "slots").rstrip("s") + "s"
    draft.headroom = Headroom(int(match[1]), unit)  # type: ignore[arg-type]
    draft.implied = True


def _preempt(draft: _Draft, value: str) -> None:
    draft.preempt = draft.implied = True
    if value:
        draft.victim = _one_of(value, VICTIMS, "victim")


def _victim(draft: _Draft, value: str) -> None:
    draft.victim = _one_of(value, VICTIMS, "victim")


def _recovery(draft: _Draft, value: str) -> None:
    draft.recovery = _one_of(value, {"recompute": 0, "swap": 0}, "recovery")


def _min_run(draft: _Draft, value: str) -> None:
    draft.min_run_s = _seconds(value)


def _floor(draft: _Draft, value: str) -> None:
    draft.floor, draft.implied = _whole(value, "floor"), True


def _aging(draft: _Draft, value: str) -> None:
    draft.aging_s, draft.implied = _positive(_seconds(value), "aging"), True


def _queue(draft: _Draft, value: str) -> None:
    draft.admits.append(queue_bound(_whole(value, "queue")))


def _max_wait(draft: _Draft, value: str) -> None:
    draft.admits.append(wait_bound(_seconds(value)))
    draft.estimates = True


def _deadline(draft: _Draft, value: str) -> None:
    if value:
        raise PolicyError(f"deadline takes no value, not {value[:40]!r}", hint="write deadline")
    draft.admits.append(meets_deadline)
    draft.estimates = draft.drop_expired = True


def _adaptive_lifo(draft: _Draft, value: str) -> None:
    draft.lifo_after_s = _seconds(value or "1s")


def _codel_word(draft: _Draft, value: str) -> None:
    draft.codel = _codel(value)


def _codel(value: str) -> CoDel:
    """`10s` or `10s/500ms`; without a target a twentieth, as in the source."""
    interval, _, target = value.partition("/")
    interval_s = _positive(_seconds(interval), "codel")
    return CoDel(interval_s, _seconds(target) if target else interval_s / 20)


def _favour(draft: _Draft, value: str) -> None:
    draft.favour = _one_of(value, {"decode": 0, "prefill": 0}, "favour")


WORDS: dict[str, _Word] = {
    **{name: _an_order(name) for name in ORDERS},
    "priority": _priority,
    "order": _named_order,
    "adaptive-lifo": _adaptive_lifo,
    "aging": _aging,
    "floor": _floor,
    "reserve": _reserve,
    "preempt": _preempt,
    "victim": _victim,
    "min-run": _min_run,
    "recovery": _recovery,
    "queue": _queue,
    "max-wait": _max_wait,
    "deadline": _deadline,
    "drop-expired": lambda draft, _: setattr(draft, "drop_expired", True),
    "codel": _codel_word,
    "static": _flag("static"),
    "favour": _favour,
}
"""Every word of the language and the function that notes it down."""


def _known() -> str:
    lanes = ", ".join(sorted(_LANE_WORDS))
    return f"{', '.join(WORDS)}; weight.TENANT; of one lane ({', '.join(LANE_LEVELS)}): {lanes}"


def _one_of(value: str, table: Mapping[str, object], what: str) -> str:
    if value not in table:
        raise PolicyError(f"unknown {what} {value[:40]!r}", hint=f"known: {', '.join(table)}")
    return value


def _whole(value: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value) or not int(value):
        raise PolicyError(f"{what} of {value[:40]!r}", hint=f"a whole number: {what}=100")
    return int(value)


def _seconds(value: str) -> float:
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise PolicyError(f"{value[:40]!r} is not a duration", hint="500ms, 10s, 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _positive(value: str | float, what: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise PolicyError(f"{what} of {str(value)[:40]!r}", hint="a number above 0")
    return number
