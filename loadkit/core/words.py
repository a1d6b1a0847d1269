"""The words of the policy language: each notes one thing down in a draft.

A new word is one function and one line in WORDS. A value that makes no sense is a PolicyError.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from loadkit.core.admission import all_of, lane_bound, meets_deadline, queue_bound, wait_bound
from loadkit.core.draft import Draft, PolicyError
from loadkit.core.orders import LANE_LEVELS
from loadkit.core.policies import ORDERS, CoDel, Headroom, LaneRule
from loadkit.core.victims import VICTIMS

_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LANE_WORDS = {"order", "queue", "adaptive-lifo", "codel"}
"""Words that may be said of one lane: `batch.queue=100`."""

Word = Callable[[Draft, str], None]


def lane_rule(rule: LaneRule, word: str, value: str) -> LaneRule:
    if word == "order":
        return replace(rule, order=ORDERS[_one_of(value, ORDERS, "order of a lane")])
    if word == "queue":
        return replace(rule, admit=all_of(rule.admit, lane_bound(_whole(value, "queue"))))
    if word == "codel":
        return replace(rule, codel=_codel(value))
    return replace(rule, lifo_after_s=_seconds(value or "1s"))


def _flag(name: str, *, lanes: bool = False) -> Word:
    def word(draft: Draft, value: str) -> None:
        if value:
            raise PolicyError(f"{name} takes no value, not {value[:40]!r}", hint=f"write {name}")
        setattr(draft, name, True)
        draft.implied |= lanes

    return word


def _an_order(name: str) -> Word:
    def word(draft: Draft, value: str) -> None:
        if value:
            raise PolicyError(f"{name} takes no value, not {value[:40]!r}", hint=f"write {name}")
        draft.orders.append(name)

    return word


def _priority(draft: Draft, value: str) -> None:
    if value:
        raise PolicyError(f"priority takes no value, not {value[:40]!r}", hint="write priority")
    draft.by_lane = True


def _named_order(draft: Draft, value: str) -> None:
    """TOML's `order = …`."""
    name = _one_of(value, {**ORDERS, "priority": None, "adaptive-lifo": None}, "order")
    WORDS[name](draft, "")


def _reserve(draft: Draft, value: str) -> None:
    match = re.fullmatch(r"(\d{1,9})(slots?|blocks?|tokens?)?", value)
    if not match:
        raise PolicyError(
            f"reserve of {value[:40]!r}", hint="reserve:8, reserve:512blocks, reserve:8192tokens"
        )
    unit = (match[2] or "slots").rstrip("s") + "s"
    draft.headroom = Headroom(int(match[1]), unit)  # type: ignore[arg-type]
    draft.implied = True


def _preempt(draft: Draft, value: str) -> None:
    draft.preempt = draft.implied = True
    if value:
        draft.victim = _one_of(value, VICTIMS, "victim")


def _victim(draft: Draft, value: str) -> None:
    draft.victim = _one_of(value, VICTIMS, "victim")


def _recovery(draft: Draft, value: str) -> None:
    draft.recovery = _one_of(value, {"recompute": 0, "swap": 0}, "recovery")


def _min_run(draft: Draft, value: str) -> None:
    draft.min_run_s = _seconds(value)


def _floor(draft: Draft, value: str) -> None:
    draft.floor, draft.implied = _whole(value, "floor"), True


def _aging(draft: Draft, value: str) -> None:
    draft.aging_s, draft.implied = positive(_seconds(value), "aging"), True


def _queue(draft: Draft, value: str) -> None:
    draft.admits.append(queue_bound(_whole(value, "queue")))


def _max_wait(draft: Draft, value: str) -> None:
    draft.admits.append(wait_bound(_seconds(value)))
    draft.estimates = True


def _deadline(draft: Draft, value: str) -> None:
    if value:
        raise PolicyError(f"deadline takes no value, not {value[:40]!r}", hint="write deadline")
    draft.admits.append(meets_deadline)
    draft.estimates = draft.drop_expired = True


def _adaptive_lifo(draft: Draft, value: str) -> None:
    draft.lifo_after_s = _seconds(value or "1s")


def _codel_word(draft: Draft, value: str) -> None:
    draft.codel = _codel(value)


def _codel(value: str) -> CoDel:
    """`10s` or `10s/500ms`; without a target a twentieth, as in the source."""
    interval, _, target = value.partition("/")
    interval_s = positive(_seconds(interval), "codel")
    return CoDel(interval_s, _seconds(target) if target else interval_s / 20)


def _favour(draft: Draft, value: str) -> None:
    draft.favour = _one_of(value, {"decode": 0, "prefill": 0}, "favour")


WORDS: dict[str, Word] = {
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


def known_words() -> str:
    lanes = ", ".join(sorted(LANE_WORDS))
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


def positive(value: str | float, what: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise PolicyError(f"{what} of {str(value)[:40]!r}", hint="a number above 0")
    return number
