"""BASE and NEW runs → pairs under each load; a load is one schedule."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from loadkit.analysis.comparison.grouping import opened
from loadkit.analysis.comparison.runs import Arm, measure, slos_told
from loadkit.errors import InputError
from loadkit.model import Slo
from loadkit.records import Manifest, RunDir

BASE, NEW = "base", "new"
_LATE_S = 2.0


@dataclass(frozen=True, slots=True)
class Load:
    """Both releases under one schedule, paired in the order in which the runs were made."""

    name: str
    sha256: str
    base: Arm
    new: Arm

    @property
    def pairs(self) -> int:
        return min(len(self.base.runs), len(self.new.runs))

    @property
    def interleaved(self) -> bool:
        """False where all runs of one side were made before those of the other."""
        made = sorted(
            [(run.manifest.created_utc, BASE) for run in self.base.runs]
            + [(run.manifest.created_utc, NEW) for run in self.new.runs]
        )
        turns = sum(a[1] != b[1] for a, b in pairwise(made))
        return turns > 1 or len(made) <= 2


def loads(base: Sequence[Path], new: Sequence[Path], slos: Sequence[Slo] = ()) -> list[Load]:
    """Raises InputError for a schedule that only one side was offered, and RunError."""
    _refuse_doubles([*base, *new])
    sides = {BASE: _by_schedule(base), NEW: _by_schedule(new)}
    for side, other in ((BASE, NEW), (NEW, BASE)):
        for sha256, runs in sides[side].items():
            if sha256 not in sides[other]:
                raise InputError(
                    f"{runs[0].path}: no {other} run was offered the same requests at the same instants",
                    hint="replay the same trace with the same options against both",
                )
    judged = tuple(slos) or slos_told([run for runs in sides[BASE].values() for run in runs])
    found = [
        Load(
            _name(runs[0].manifest()),
            sha256,
            _arm(BASE, runs, judged),
            _arm(NEW, sides[NEW][sha256], judged),
        )
        for sha256, runs in sides[BASE].items()
    ]
    return sorted(found, key=lambda load: _rate_rps(load.base.manifest))


def _refuse_doubles(paths: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for run in (run for path in paths for run in opened(path)):
        if run.path.resolve() in seen:
            raise InputError(f"{run.path}: given twice", hint="a run cannot be judged by itself")
        seen.add(run.path.resolve())


def _by_schedule(paths: Sequence[Path]) -> dict[str, list[RunDir]]:
    found: dict[str, list[RunDir]] = {}
    for run in (run for path in paths for run in opened(path)):
        found.setdefault(str(run.manifest().schedule.get("sha256")), []).append(run)
    return {
        sha256: sorted(runs, key=lambda run: run.manifest().created_utc)
        for sha256, runs in found.items()
    }


def _arm(label: str, runs: Sequence[RunDir], slos: Sequence[Slo]) -> Arm:
    return Arm(label, tuple(measure(run, slos, _LATE_S) for run in runs))


def _name(manifest: Manifest) -> str:
    return f"{_rate_rps(manifest):.3g} requests/s"


def _rate_rps(manifest: Manifest) -> float:
    return float(manifest.schedule.get("mean_rate_rps") or 0.0)
