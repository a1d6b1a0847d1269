"""A search on disk → what it found. The folder alone is enough, also while the search is unfinished."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from loadkit.analysis.knee.cautions import INVALID_STEPS, cautions
from loadkit.analysis.knee.findings import Findings, find
from loadkit.analysis.knee.sharing import Sharing, sharing
from loadkit.analysis.knee.steps import Step, plan_of, read_step, with_seen_slots
from loadkit.errors import RunError
from loadkit.model import Slo
from loadkit.records import Manifest, RunDir

KNEE_FILE = "knee.json"
KNEE_SCHEMA = "loadkit.knee/v1"
ALONE = "alone"
"""Folder, inside that of a search, of the search of the same lanes without the others."""


@dataclass(frozen=True, slots=True)
class KneeResult:
    folder: Path
    asked: Mapping[str, Any]
    """`trace`, `target`, `search` (slo, warm_s, measure_s, …), `scaled`, `lanes`, `seed`."""
    slo: Slo
    steps: tuple[Step, ...]
    runs: tuple[str, ...]
    """Folder of each step's run, relative to `folder`."""
    manifests: tuple[Manifest, ...]
    findings: Findings
    """From all steps but the soak."""
    ended_why: str | None
    """None = it has not ended."""
    alone: "KneeResult | None" = None
    """The same lanes without the others, where that was searched too."""

    @property
    def nearest_to_capacity(self) -> Step | None:
        """The valid step whose rate is closest to the capacity."""
        rps = self.findings.capacity.rps
        valid = [step for step in self.steps if step.valid]
        if rps is None or not valid:
            return None
        return min(valid, key=lambda step: abs(step.plan.rate_rps - rps))

    @property
    def exit_code(self) -> int:
        """0 = found and, where that was asked for, confirmed; 3 = steps were invalid; 1 = else."""
        codes = [self._own_exit_code, self.alone.exit_code if self.alone else 0]
        return max(codes)

    @property
    def _own_exit_code(self) -> int:
        if (self.ended_why or "").startswith(INVALID_STEPS):
            return 3
        ended = self.ended_why is not None
        found = self.findings.capacity.rps is not None
        return 0 if ended and found and not self.lacks_soak and not self.is_refuted else 1

    @property
    def lacks_soak(self) -> bool:
        """A confirmation was asked for, and no valid one was made."""
        return bool(self.asked["search"]["soak_s"]) and self.soak is None

    @property
    def is_refuted(self) -> bool:
        return self.soak is not None and self.soak[1] == "NOT CONFIRMED"

    @property
    def cautions(self) -> list[str]:
        return cautions(self)

    @property
    def sharing(self) -> Sharing | None:
        return None if self.alone is None else sharing(self.findings, self.alone.findings)

    @property
    def soak(self) -> tuple[Step, Literal["CONFIRMED", "NOT CONFIRMED"]] | None:
        """The last valid soak, and whether the SLO held in it."""
        soaks = [step for step in self.steps if step.plan.role == "soak" and step.valid]
        if not soaks:
            return None
        share = soaks[-1].missed(self.slo.threshold_s)
        held = share.requests and share.share <= 1 - self.slo.quantile
        return soaks[-1], "CONFIRMED" if held else "NOT CONFIRMED"


def read_result(folder: Path) -> KneeResult:
    """Raises RunError where the folder holds no search."""
    told = read_search(folder)
    slo = Slo(**told["asked"]["search"]["slo"])
    steps, manifests = [], []
    for one in told["steps"]:
        run = RunDir(folder / one["run"])
        steps.append(read_step(run, plan_of(one), slo, told["asked"]["scaled"]))
        manifests.append(run.manifest())
    steps = with_seen_slots(steps)
    searched = [step for step in steps if step.plan.role != "soak"]
    return KneeResult(
        folder=folder,
        asked=told["asked"],
        slo=slo,
        steps=tuple(steps),
        runs=tuple(one["run"] for one in told["steps"]),
        manifests=tuple(manifests),
        findings=find(searched, slo),
        ended_why=told.get("ended_why"),
        alone=read_result(folder / ALONE) if (folder / ALONE / KNEE_FILE).exists() else None,
    )


def read_search(folder: Path) -> dict[str, Any]:
    """`knee.json`. Raises RunError."""
    path = folder / KNEE_FILE
    try:
        told = json.loads(path.read_text("utf-8"))
    except OSError as error:
        hint = "give the folder that `loadkit knee -o` wrote"
        raise RunError(f"{folder}: no search ({KNEE_FILE}: {error.strerror})", hint=hint) from error
    except ValueError as error:
        raise RunError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(told, dict) or told.get("schema") != KNEE_SCHEMA:
        raise RunError(f"{path}: not a search of this version of loadkit")
    return told
