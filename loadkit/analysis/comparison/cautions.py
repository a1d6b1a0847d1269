"""What a reader must know before trusting a comparison, though it makes none of the numbers worthless."""

import itertools
from collections.abc import Callable, Sequence

from loadkit.analysis.comparison.paired import MIN_PAIRS
from loadkit.analysis.comparison.runs import COVERED_POINTS, Arm
from loadkit.analysis.comparison.settings import differing, settings_of, title
from loadkit.analysis.comparison.work import why_other_work

GOOD_PAIRS = 5


def cautions(arms: Sequence[Arm]) -> list[str]:
    valid = [arm for arm in arms if not arm.reasons]
    return [text for find in _FINDERS for text in find(valid)]


def _other_work(arms: Sequence[Arm]) -> list[str]:
    """First of all: a shorter job is not a better server."""
    told: dict[str, list[str]] = {}
    for arm in arms[1:]:
        if reason := why_other_work(arms[0].manifest, arm.manifest):
            told.setdefault(reason, []).append(arm.label)
    return [
        f"OTHER WORK in {', '.join(labels)} than in {arms[0].label}: {reason}. The requests and their "
        "instants are the same. What counts the other work is told and carries no verdict: it is what "
        "that work does, not what a policy gains."
        for reason, labels in told.items()
    ]


def _unlike_repeats(arms: Sequence[Arm]) -> list[str]:
    return [
        f"The runs of {arm.label} are no repeats: they differ in {', '.join(map(title, apart))}."
        for arm in arms
        if (
            apart := differing(
                [
                    {"policy": r.manifest.target.get("policy"), **settings_of(r.manifest)}
                    for r in arm.runs
                ]
            )
        )
    ]


def _few_repeats(arms: Sequence[Arm]) -> list[str]:
    live = [arm for arm in arms if not arm.simulated]
    fewest = min((len(arm.runs) for arm in live), default=GOOD_PAIRS)
    if fewest >= GOOD_PAIRS:
        return []
    if fewest < MIN_PAIRS:
        once = "once" if fewest == 1 else "twice"
        told = f"A live run was made only {once} for a label: how much runs differ by themselves is not "
        return [
            f"{told}known, so nothing is proved. Make {GOOD_PAIRS} of each, in turn (A B B A …)."
        ]
    return [
        f"{fewest} repeats show large differences alone; {GOOD_PAIRS} are a good screening, 10 a gate of 5%."
    ]


def _unpaired(arms: Sequence[Arm]) -> list[str]:
    counts = {arm.label: len(arm.runs) for arm in arms if not arm.simulated}
    if len(set(counts.values())) < 2:
        return []
    told = ", ".join(f"{label} {n}" for label, n in counts.items())
    return [f"Unequal numbers of repeats ({told}): only the first of each are paired."]


def _not_interleaved(arms: Sequence[Arm]) -> list[str]:
    """A machine that warms up or fills up changes all runs of one label, and none of the other."""
    spans = [
        (min(starts), max(starts))
        for arm in arms
        if not arm.simulated and len(arm.runs) > 1
        and (starts := [run.manifest.created_utc for run in arm.runs])
    ]  # fmt: skip
    ordered = sorted(spans)
    apart = [earlier[1] < later[0] for earlier, later in itertools.pairwise(ordered)]
    if not apart or not all(apart):
        return []
    told = "All repeats of one label were made before those of the next: a machine that drifts looks like "
    return [f"{told}a difference. Interleave them (A B B A …)."]


def _mixed_sources(arms: Sequence[Arm]) -> list[str]:
    kinds = {arm.simulated for arm in arms}
    return (
        [
            "Some runs are simulated and some live: the difference holds the simulator's own error too."
        ]
        if len(kinds) > 1
        else []
    )


def _unlike_clients(arms: Sequence[Arm]) -> list[str]:
    live = [run.manifest for arm in arms if not arm.simulated for run in arm.runs]
    unlike = [
        what
        for what, values in (
            ("client machines", {repr(sorted(m.machine.items())) for m in live}),
            ("loadkit versions", {m.loadkit_version for m in live}),
            ("time-outs", {m.limits.get("timeout_s") for m in live}),
        )
        if len(values) > 1
    ]
    return [f"The runs were made with different {', '.join(unlike)}."] if unlike else []


def _unlike_answers(arms: Sequence[Arm]) -> list[str]:
    """Who answers fewer looks faster: latencies know only what was answered."""
    told = []
    for lane in dict.fromkeys(lane for arm in arms for run in arm.runs for lane in run.lanes):
        shares = {arm.label: share for arm in arms if (share := _answered(arm, lane)) is not None}
        if shares and max(shares.values()) - min(shares.values()) > COVERED_POINTS:
            least = min(shares, key=lambda label: shares[label])
            told.append(
                f"In {lane}, {least} answered {shares[least]:.1%} of what was offered, others up to "
                f"{max(shares.values()):.1%}: its latencies leave out what it did not finish."
            )
    return told


def _answered(arm: Arm, lane: str) -> float | None:
    done = arm.mean((lane, ("completed", None)))
    offered = [run.offered.get(lane, 0) for run in arm.runs]
    return None if done is None or not all(offered) else done / (sum(offered) / len(offered))


_FINDERS: tuple[Callable[[Sequence[Arm]], list[str]], ...] = (
    _other_work,
    _unlike_repeats,
    _few_repeats,
    _unpaired,
    _not_interleaved,
    _mixed_sources,
    _unlike_clients,
    _unlike_answers,
)
