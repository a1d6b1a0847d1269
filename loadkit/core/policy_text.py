"""The policy language: `reserve:8+preempt`, `priority,aging=1h,floor=8`, or the same as TOML.

Words are joined by `+` or `,`; a value follows `:` or `=`; `batch.queue=100` says it of one lane.
Whatever is not known is an error that lists what is.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from loadkit.core.draft import Draft, PolicyError, built
from loadkit.core.policies import LaneRule, Policy
from loadkit.core.words import LANE_WORDS, WORDS, known_words, lane_rule, positive


def parse_policy(text: str) -> Policy:
    """`reserve:8+preempt` → Policy. Raises PolicyError."""
    draft = Draft()
    words = re.split(r"[+,]", text.strip())
    if not all(word.strip() for word in words):
        raise PolicyError(
            f"{text!r} is not a policy", hint=f"words joined by + or ,: {known_words()}"
        )
    for word in words:
        name, value = re.fullmatch(r"([^:=]*)[:=]?(.*)", word.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
        _apply(draft, name, value)
    return built(text.strip(), draft)


def policy_from_toml(text: str, name: str) -> Policy:
    """The same words as keys, with tables `lane.NAME` and `weights`. Raises PolicyError.

    `order = ["priority", "sjf"]`, `reserve = 8`, `preempt = true`, `[lane.batch]` `queue = 100`.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not valid TOML ({error})", hint='for example: reserve = "8"') from error
    draft = Draft()
    for word, value in _flat(values):
        _apply(draft, word, value)
    return built(str(values.get("name", name)), draft)


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


def _apply(draft: Draft, name: str, value: str) -> None:
    place, dot, inner = name.partition(".")
    if name in WORDS:
        WORDS[name](draft, value)
    elif dot and place == "weight" and inner:
        draft.weights[inner] = positive(value, name)
    elif dot and inner in LANE_WORDS:
        draft.lanes[place] = lane_rule(draft.lanes.get(place, LaneRule()), inner, value)
    else:
        raise PolicyError(f"unknown policy word {name[:40]!r}", hint=f"known: {known_words()}")
