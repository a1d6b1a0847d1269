"""Run directories → what a comparison needs of each, grouped into arms: one label and its repeats."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis import slo
from loadkit.analysis.comparison.identity import refuse_unlike
from loadkit.analysis.comparison.measures import (
    MEASURES,
    WHOLE_RUN,
    Key,
    Lane,
    covered_share,
    wait_source,
    waits,
)
from loadkit.analysis.comparison.occupancy import Occupancy, occupancy
from loadkit.analysis.facts import Facts, load
from loadkit.analysis.gaps import GapSeries, gaps_over_time
from loadkit.analysis.ledger import ledger
from loadkit.analysis.metrics import METRICS
from loadkit.analysis.slo import SloResult
from loadkit.analysis.summary import preemptions_of, server_means
from loadkit.analysis.validity import Validity, checks_of_the_generator, checks_of_the_target
from loadkit.errors import InputError, RunError
from loadkit.model import INTERACTIVE, Slo
from loadkit.records import Manifest, RunDir

PAIRED = ("queue_wait", "ttft", "e2e")
"""Metrics of which the same request is compared from run to run."""
COVERED_POINTS = 0.01
"""Arms that speak of shares of the requests further apart than this are not alike."""
_CURVE_POINTS = 800
_GAP_BINS = 200
_LONGEST_LABEL = 60
_OF_ONE_RUN = ("url", "prompt_salt", "calibration", "unknown")
"""Parts of a target that change from run to run of the same server."""

Place = tuple[str | None, Key]
"""(lane, measure); lane None = the whole run."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, reduced to numbers."""

    path: Path
    manifest: Manifest
    simulated: bool
    validity: Validity
    lanes: tuple[str, ...]
    offered: Mapping[str, int]
    figures: Mapping[Place, float | None]
    covered: Mapping[Place, float | None]
    """Part of the offered requests that a figure speaks of; None for what counts them all."""
    requests: Mapping[str, pd.DataFrame]
    """lane → the `PAIRED` metrics by request id; NaN where the request has none."""
    slos: tuple[SloResult, ...]
    occupancy: Occupancy | None
    curves: Mapping[tuple[str, str], NDArray[np.float64]]
    """(lane, metric of `PAIRED`) → evenly spaced order statistics."""
    wait_sources: Mapping[str, str | None]
    gaps: Mapping[str, GapSeries]
    """By lane; only of lanes that streamed."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One policy, release or server: a label and every run of it."""

    label: str
    runs: tuple[Measured, ...]

    @property
    def reasons(self) -> list[str]:
        """Why the arm cannot be judged; empty when it can."""
        return [
            f"{run.path.name}: {reason}"
            for run in self.runs
            for reason in (*run.validity.reasons, *_cut(run))
        ]

    @property
    def simulated(self) -> bool:
        return all(run.simulated for run in self.runs)

    def values_of(self, place: Place) -> list[float | None]:
        return [run.figures.get(place) for run in self.runs]

    def covered(self, place: Place) -> float | None:
        """Mean part of the offered requests that a figure speaks of; None for what counts them all."""
        known = [share for run in self.runs if (share := run.covered.get(place)) is not None]
        return float(np.mean(known)) if known else None

    def mean(self, place: Place) -> float | None:
        """Over the runs that know it; None when none does, or the arm is invalid."""
        known = [value for value in self.values_of(place) if value is not None]
        return float(np.mean(known)) if known and not self.reasons else None


def _cut(run: Measured) -> list[str]:
    if run.manifest.state != "stopped":
        return []
    return [f"it was stopped at {run.manifest.ended_s or 0.0:.1f} s and speaks for a part alone"]


class _Named(NamedTuple):
    """A run, its manifest, and what to call it where its policy does not: the RUN it was given as."""

    run: RunDir
    manifest: Manifest
    name: str


def group(paths: Sequence[Path], labels: Sequence[str] = ()) -> dict[str, list[RunDir]]:
    """Label → runs, in the order given; a folder of runs stands for all that are in it.

    Labels are those given (one for each path), or the policy in the manifest, or the folder's name.
    Raises InputError, also for fewer than two labels and for runs of unlike schedules; RunError.
    """
    if labels and len(labels) != len(paths):
        raise InputError(
            f"{len(labels)} labels for {len(paths)} runs",
            hint="give --label once for each RUN, in order; equal labels are repeats",
        )
    names = list(labels) or _folder_names(paths)
    runs = [
        _Named(run, run.manifest(), name)
        for path, name in zip(paths, names, strict=True)
        for run in _opened(path)
    ]
    _refuse_doubles(runs)
    for each in runs[1:]:
        refuse_unlike(
            (str(runs[0].run.path), runs[0].manifest), (str(each.run.path), each.manifest)
        )
    arms: dict[str, list[RunDir]] = {}
    for label, named in zip(_labels(runs, given=bool(labels)), runs, strict=True):
        arms.setdefault(label, []).append(named.run)
    if len(arms) < 2:
        raise InputError(
            f"nothing to compare: every run is {next(iter(arms), 'missing')!r}",
            hint="give two or more runs, or tell them apart: --label old --label new",
        )
    return arms


def _opened(path: Path) -> list[RunDir]:
    """The run at `path`, or those in it, oldest first."""
    if (path / "run.json").exists() or not path.is_dir():
        return [RunDir.open(path)]
    inside = [RunDir.open(child.parent) for child in sorted(path.glob("*/run.json"))]
    if not inside:
        raise RunError(
            f"{path}: neither a run directory nor a folder of some",
            hint="give the folder that `loadkit replay -o` or `loadkit sim -o` wrote",
        )
    return sorted(inside, key=lambda run: run.manifest().created_utc)


def _labels(runs: Sequence[_Named], *, given: bool) -> list[str]:
    """The policy, when it tells apart what was configured apart; otherwise with the folder's name."""
    if given:
        return [named.name for named in runs]
    policies = [str(named.manifest.target.get("policy") or "")[:_LONGEST_LABEL] for named in runs]
    setups: dict[str, set[str]] = {}
    for policy, named in zip(policies, runs, strict=True):
        setups.setdefault(policy, set()).add(_setup(named.manifest))
    return [
        policy if policy and len(setups[policy]) == 1 else f"{policy} {named.name}".strip()
        for policy, named in zip(policies, runs, strict=True)
    ]


def _folder_names(paths: Sequence[Path]) -> list[str]:
    """The last part, or the whole path where that would take different folders for one."""
    names = [path.resolve().name[:_LONGEST_LABEL] for path in paths]
    return [
        name if names.count(name) == 1 else str(path)
        for name, path in zip(names, paths, strict=True)
    ]


def _setup(manifest: Manifest) -> str:
    """Everything about the target but where it stood and what differs between any two runs of it."""
    told = {k: v for k, v in manifest.target.items() if k not in _OF_ONE_RUN}
    return json.dumps(told, sort_keys=True, default=str)


def _refuse_doubles(runs: Sequence[_Named]) -> None:
    seen: set[Path] = set()
    for path in (named.run.path for named in runs):
        if path.resolve() in seen:
            raise InputError(f"{path}: given twice", hint="a run cannot be compared with itself")
        seen.add(path.resolve())


def slos_told(runs: Sequence[RunDir]) -> tuple[Slo, ...]:
    """Every SLO in the manifests, each once."""
    told = (each for run in runs for each in slo.slos_of(run.manifest().slos))
    return tuple(dict.fromkeys(told))


def measure(run: RunDir, slos: Sequence[Slo], late_s: float) -> Measured:
    """Read one run and keep what a comparison needs. Raises RunError."""
    facts = load(run)
    lanes = {name: _lane(facts, name, slos, late_s) for name in _names(facts)}
    checks = (*checks_of_the_generator(facts), *checks_of_the_target(facts, ledger(facts)))
    requests = {name: _requests(lane) for name, lane in lanes.items()}
    used = occupancy(facts)
    return Measured(
        path=run.path,
        manifest=facts.manifest,
        simulated=bool(len(facts.offered) and facts.offered["source"].eq("sim").any()),
        validity=Validity(checks),
        lanes=tuple(lanes),
        offered={name: len(lane.offered) for name, lane in lanes.items()},
        figures={**_lane_values(lanes), **_whole_values(facts, used)},
        covered={
            (name, each.key): covered_share(lane, each)
            for name, lane in lanes.items()
            for each in MEASURES
        },
        requests=requests,
        slos=tuple(slo.judge(facts, each) for each in slos),
        occupancy=used,
        curves={
            (name, metric): _curve(frame[metric])
            for name, frame in requests.items()
            for metric in PAIRED
        },
        wait_sources={name: wait_source(lane) for name, lane in lanes.items()},
        gaps=gaps_over_time(facts, np.linspace(0.0, max(facts.end_s, 1e-9), _GAP_BINS + 1)),
    )


def _names(facts: Facts) -> list[str]:
    return sorted(facts.offered["lane"].unique(), key=lambda name: (name != INTERACTIVE, name))


def _lane(facts: Facts, name: str, slos: Sequence[Slo], late_s: float) -> Lane:
    rows = (facts.offered["lane"] == name).to_numpy(bool)
    own = tuple(each for each in slos if each.lane == name)
    offered = facts.offered[rows]
    return Lane(facts, rows, offered, offered[offered["status"] == "ok"], own, late_s)


def _lane_values(lanes: Mapping[str, Lane]) -> dict[Place, float | None]:
    return {
        (name, each.key): each.of(lane)
        for name, lane in lanes.items()
        for each in MEASURES
        if each.of is not None
    }


def _whole_values(facts: Facts, used: Occupancy | None) -> dict[Place, float | None]:
    told, share = preemptions_of(facts), server_means(facts).slot_use_share
    if share is None and used and used.slots:
        share = used.mean / used.slots
    preempted, again = told.total, told.recomputed_tokens
    values = (
        None if preempted is None else float(preempted),
        None if again is None else float(again),
        share,
    )
    return {(None, each.key): value for each, value in zip(WHOLE_RUN, values, strict=True)}


def _requests(lane: Lane) -> pd.DataFrame:
    """Instants of answered requests; a wait counts as soon as the engine began to serve."""
    values = {metric: METRICS[metric].of(lane.answered) for metric in PAIRED}
    values = {metric: known.reindex(lane.offered.index) for metric, known in values.items()}
    values["queue_wait"] = waits(lane).reindex(lane.offered.index)
    frame = pd.DataFrame(values).astype(float)
    frame.index = pd.Index(lane.offered["request_id"])
    return frame


def _curve(values: pd.Series) -> NDArray[np.float64]:
    ordered = np.sort(values.dropna().to_numpy(float))
    if len(ordered) <= _CURVE_POINTS:
        return ordered
    places = np.linspace(0, len(ordered) - 1, _CURVE_POINTS).round().astype(int)
    return np.asarray(ordered[places])
