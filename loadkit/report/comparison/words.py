"""The answer in plain words: what to run, what it costs, and how sure that is."""

from typing import Literal, NamedTuple

from loadkit.analysis import slo_text
from loadkit.analysis.comparison import OTHER_WORK, Comparison, Difference, Standing
from loadkit.report import numbers
from loadkit.report.comparison import forms

_MOST_NAMED, _FEW_NAMED = 4, 2


class Headline(NamedTuple):
    word: str
    tone: Literal["valid", "open", "invalid"]
    sentence: str


def headline(comparison: Comparison) -> Headline:
    """The shortest answer there is."""
    if comparison.invalid:
        return Headline(
            "INVALID", "invalid", "Not every run may be believed; what is invalid is not compared."
        )
    if comparison.slos and comparison.choice:
        return Headline(comparison.choice.label, "valid", _chosen_because(comparison))
    if comparison.slos and comparison.marks:
        return Headline("NO RUN MEETS THE SLOs", "invalid", "")
    if len(comparison.arms) == 2:
        return _of_two(comparison)
    return Headline(
        "COMPARED", "open", "No SLO was given, so none of them can be called the right one."
    )


def _chosen_because(comparison: Comparison) -> str:
    assert comparison.choice is not None
    if comparison.choice.cost_share is None:
        return "meets every SLO."
    return "meets every SLO at the least batch cost."


def _of_two(comparison: Comparison) -> Headline:
    first, second = (arm.label for arm in comparison.arms)
    if comparison.on_other_work:
        return Headline("OTHER WORK", "open", f"{second} against {first}: what it would change.")
    said = {difference.verdict for difference in comparison.differences} - {"not judged"}
    if {"better", "worse"} <= said:
        return Headline("BETTER AND WORSE", "open", f"{second} against {first}: a trade-off.")
    if "worse" in said:
        return Headline("WORSE", "invalid", f"{second} against {first}.")
    if "better" in said:
        return Headline("BETTER", "valid", f"{second} against {first}.")
    if said == {"no difference shown"}:
        return Headline("NO DIFFERENCE SHOWN", "valid", f"{second} against {first}.")
    return Headline("INCONCLUSIVE", "open", f"{second} against {first}: the runs do not settle it.")


def conclusion(comparison: Comparison) -> list[str]:
    """Short paragraphs, the decision first."""
    return [*decision(comparison), *_changes(comparison)]


def decision(comparison: Comparison) -> list[str]:
    """The part that fits a terminal."""
    parts = (
        _invalid(comparison),
        " ".join((_decision(comparison), _confidence(comparison))).strip(),
        _front(comparison),
    )
    return [part for part in parts if part]


def _invalid(comparison: Comparison) -> str:
    told = [f"{arm.label} is invalid ({arm.reasons[0]})" for arm in comparison.invalid]
    return f"{'; '.join(told)}. It is left out of every comparison." if told else ""


def _decision(comparison: Comparison) -> str:
    if not comparison.slos and len(comparison.arms) == 2:
        return ""  # what changed is the answer
    if not comparison.slos:
        return (
            "No SLO was given, so nothing says how long the interactive lane may wait: name one, for example "
            "--slo interactive:ttft:p99:500ms."
        )
    asked = _listed([slo_text(slo) for slo in comparison.slos])
    if comparison.choice is None:
        return f"None of the {len(comparison.arms)} meets every SLO ({asked}). {_closest(comparison)}".strip()
    return _choice(comparison, asked)


def _choice(comparison: Comparison, asked: str) -> str:
    choice, good = comparison.choice, comparison.meeting
    assert choice is not None
    who = (
        f"{len(good)} of {len(comparison.arms)} meet" if len(good) > 1 else f"Only {good[0]} meets"
    )
    first = f"{who} every SLO ({asked})."
    if choice.cost_share is None:
        return first
    work = _work(comparison, choice.label)
    these = f"Of these{', on the work of the baseline,' * bool(comparison.on_other_work) or ','}"
    first += (
        f" {these} {choice.label} gets the most batch work done" if len(good) > 1 else " It does"
    )
    first += f"{', ' if len(good) > 1 else ' '}{work}"
    if choice.label == choice.cost_against:
        return f"{first}; no other does more."
    against = f"{numbers.share(choice.cost_share)} less than {choice.cost_against}"
    return f"{first}, {against}, which does most of all{_and_why_not(comparison)}."


def _work(comparison: Comparison, label: str) -> str:
    standing = _standing(comparison, label)
    return f"{numbers.level(standing.work_per_h)} items an hour" if standing else "its work"


def _and_why_not(comparison: Comparison) -> str:
    assert comparison.choice is not None
    missed = [
        mark
        for mark in comparison.marks
        if mark.label == comparison.choice.cost_against and not mark.met
    ]
    if not missed:
        return ""
    worst = max((r.value_s for r in missed[0].results if r.value_s is not None), default=None)
    return f" but misses {slo_text(missed[0].slo)} (measured {numbers.seconds(worst)})"


def _closest(comparison: Comparison) -> str:
    """The arm whose worst SLO has the most requests within."""
    known = {
        arm.label: min(
            (
                r.within_share or 0.0
                for m in comparison.marks
                if m.label == arm.label
                for r in m.results
            ),
            default=0.0,
        )
        for arm in comparison.arms
        if not arm.reasons
    }
    if not known:
        return ""
    label = max(known, key=lambda name: known[name])
    return f"{label} comes closest, with {numbers.share(known[label])} within in its worst."


def _confidence(comparison: Comparison) -> str:
    if comparison.exact:
        return "All are simulated on the same arrivals: exact for this trace, though another day may differ."
    choice = comparison.choice
    fewest = min(len(arm.runs) for arm in comparison.arms)
    if fewest == 1:
        return "Each live run was made once only: repeats may turn the order round."
    if choice and choice.tied and choice.cost_share is not None:
        return (
            f"By these repeats its batch work cannot be told from that of {_listed(choice.tied)}."
        )
    return ""


def _front(comparison: Comparison) -> str:
    found = comparison.trade_off
    if found is None or len(found.standings) < 3:
        return ""
    beaten = [standing for standing in found.standings if standing.beaten_by]
    if all(standing.on_front for standing in found.standings):
        return "None is beaten by another in both: each shorter wait is paid with batch work."
    if not beaten:
        return ""
    told = [f"{one.label} by {one.beaten_by}" for one in beaten[:_MOST_NAMED]]
    more = f" and {len(beaten) - len(told)} more" if len(beaten) > len(told) else ""
    return (
        f"Matched in both {found.tail_lane} {found.tail.title} and {found.work_lane} work, and beaten in "
        f"one of them: {_listed(told)}{more}."
    )


def _standing(comparison: Comparison, label: str) -> Standing | None:
    standings = comparison.trade_off.standings if comparison.trade_off else ()
    return next((standing for standing in standings if standing.label == label), None)


def _changes(comparison: Comparison) -> list[str]:
    """One sentence for every other arm: what is better, what is worse, what is open."""
    return [_changed(comparison, arm.label) for arm in comparison.arms[1:] if not arm.reasons]


def _changed(comparison: Comparison, label: str) -> str:
    own = [each for each in comparison.differences if each.arm == label]
    most = _MOST_NAMED if len(comparison.arms) == 2 else _FEW_NAMED
    parts = [
        f"{word} in {_named(found, most)}"
        for word in ("better", "worse")
        if (found := [each for each in own if each.verdict == word])
    ]
    other = [each for each in own if each.why.startswith(OTHER_WORK) and each.change]
    if other:
        parts.append(f"on other work, which is not judged: {_named(other, _MOST_NAMED)}")
    counts = [
        f"{n} {word}"
        for word in ("no difference shown", "inconclusive", "invalid")
        if (n := sum(each.verdict == word for each in own))
    ]
    what = "; ".join(parts) or "nothing was shown to be better or worse"
    rest = f" ({', '.join(counts)})" if counts else ""
    return f"{label} against {comparison.baseline.label}: {what}{rest}."


def _named(found: list[Difference], most: int) -> str:
    told = [_change(each) for each in _striking(found)[:most]]
    more = len(found) - len(told)
    return f"{', '.join(told)}{f' and {more} more' if more > 0 else ''}"


def _striking(found: list[Difference]) -> list[Difference]:
    """First what a reader asks for first: the tail, the goodput, the work; last what hardly changed."""
    first = [
        ("queue_wait", 0.99), ("ttft", 0.99), ("goodput_share", None), ("completed", None),
        ("completed_per_h", None), ("deadline_share", None), ("preemptions", None),
    ]  # fmt: skip

    def rank(one: Difference) -> tuple[bool, int]:
        slight = one.relative and abs(one.change or 0.0) < one.measure.margin
        key = one.measure.key
        return slight, first.index(key) if key in first and one.lane else len(first)

    return sorted(found, key=rank)


def _change(found: Difference) -> str:
    lane = f"{found.lane} " if found.lane else ""
    told = forms.change(found.change, found)
    return f"{lane}{found.measure.title} ({told})"


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
