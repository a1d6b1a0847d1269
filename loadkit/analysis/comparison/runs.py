"""Runs → what a comparison needs of each; an arm is one label and its repeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadkit.analysis import slo
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
from loadkit.analysis.comparison.settings import settings_of
from loadkit.analysis.facts import Facts, RunTables, load
from loadkit.analysis.gaps import GapSeries, gaps_over_time
from loadkit.analysis.ledger import ledger
from loadkit.analysis.metrics import METRICS
from loadkit.analysis.slo import SloResult
from loadkit.analysis.summary import preemptions_of, server_means
from loadkit.analysis.validity import Validity, checks_of_the_generator, checks_of_the_target
from loadkit.model import INTERACTIVE, Slo
from loadkit.records import Manifest

PAIRED = ("queue_wait", "ttft", "e2e")
"""Metrics of which the same request is compared from run to run."""
COVERED_POINTS = 0.01
"""Arms that speak of shares of the requests further apart than this are not alike."""
_CURVE_POINTS = 800
_GAP_BINS = 200

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

    @property
    def manifest(self) -> Manifest:
        """Of the first run; what was offered is the same in all of them."""
        return self.runs[0].manifest

    @property
    def settings(self) -> dict[str, Any]:
        """Of the first run; with the policy, unless the label says it."""
        policy = str(self.manifest.target.get("policy") or "")
        told = {} if not policy or self.label.startswith(policy) else {"policy": policy}
        return told | settings_of(self.manifest)

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


def slos_told(runs: Sequence[RunTables]) -> tuple[Slo, ...]:
    """Every SLO in the manifests, each once."""
    told = (each for run in runs for each in slo.slos_of(run.manifest().slos))
    return tuple(dict.fromkeys(told))


def measure(run: RunTables, slos: Sequence[Slo], late_s: float) -> Measured:
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
