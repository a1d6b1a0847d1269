"""Runs → labels: what is compared with what, and whether it may be."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loadkit.analysis.comparison.identity import refuse_unlike
from loadkit.analysis.comparison.settings import differing, settings_of, text, title
from loadkit.analysis.comparison.work import why_other_work
from loadkit.analysis.facts import RunTables
from loadkit.errors import InputError, RunError
from loadkit.records import Manifest, RunDir

_LONGEST_LABEL = 60


class Named(NamedTuple):
    """A run, its manifest, and what to call it where its policy does not: the RUN it was given as."""

    run: RunTables
    manifest: Manifest
    name: str


def group(paths: Sequence[Path], labels: Sequence[str] = ()) -> dict[str, list[RunTables]]:
    """Label → runs, in the order given; a folder of runs stands for all that are in it.

    Labels are those given (one for each path), or the policy in the manifest with what was set otherwise
    than in the first run of it, or the folder's name. Raises InputError, also for fewer than two labels
    and for runs of unlike schedules; RunError.
    """
    if labels and len(labels) != len(paths):
        raise InputError(
            f"{len(labels)} labels for {len(paths)} runs",
            hint="give --label once for each RUN, in order; equal labels are repeats",
        )
    names = list(labels) or _folder_names(paths)
    runs = [
        Named(run, run.manifest(), name)
        for path, name in zip(paths, names, strict=True)
        for run in opened(path)
    ]
    _refuse_doubles(runs)
    for each in runs[1:]:
        refuse_unlike(
            (str(runs[0].run.path), runs[0].manifest), (str(each.run.path), each.manifest)
        )
    return by_label(runs, names_given=bool(labels))


def by_label(runs: Sequence[Named], *, names_given: bool = False) -> dict[str, list[RunTables]]:
    """The same from runs that are open. Raises InputError."""
    labels = [named.name for named in runs] if names_given else [_label(n, runs) for n in runs]
    arms: dict[str, list[RunTables]] = {}
    firsts: dict[str, Manifest] = {}
    for label, named in zip(labels, runs, strict=True):
        arms.setdefault(label, []).append(named.run)
        _refuse_other_work(label, firsts.setdefault(label, named.manifest), named)
    if len(arms) < 2:
        raise InputError(
            f"nothing to compare: every run is {next(iter(arms), 'missing')!r}",
            hint="give two or more runs, or tell them apart: --label old --label new",
        )
    return arms


def opened(path: Path) -> list[RunDir]:
    """The run at `path`, or those in it, oldest first. Raises RunError."""
    if (path / "run.json").exists() or not path.is_dir():
        return [RunDir.open(path)]
    inside = [RunDir.open(child.parent) for child in sorted(path.glob("*/run.json"))]
    if not inside:
        raise RunError(
            f"{path}: neither a run directory nor a folder of some",
            hint="give the folder that `loadkit replay -o` or `loadkit sim -o` wrote",
        )
    return sorted(inside, key=lambda run: run.manifest().created_utc)


def _label(named: Named, runs: Sequence[Named]) -> str:
    """The policy, and what was set otherwise than in the first run of it; or with the folder's name."""
    policy = _policy(named.manifest)
    first = next(other for other in runs if _policy(other.manifest) == policy)
    settings = settings_of(named.manifest)
    changed = differing([settings_of(first.manifest), settings])
    if not policy or not changed:
        return policy or named.name
    label = f"{policy} · {', '.join(f'{title(key)} {text(key, settings[key])}' for key in changed)}"
    return label if len(label) <= _LONGEST_LABEL else f"{policy} {named.name}"


def _policy(manifest: Manifest) -> str:
    return str(manifest.target.get("policy") or "")[:_LONGEST_LABEL]


def _folder_names(paths: Sequence[Path]) -> list[str]:
    """The last part, or the whole path where that would take different folders for one."""
    names = [path.resolve().name[:_LONGEST_LABEL] for path in paths]
    return [
        name if names.count(name) == 1 else str(path)
        for name, path in zip(names, paths, strict=True)
    ]


def _refuse_doubles(runs: Sequence[Named]) -> None:
    seen: set[Path] = set()
    for path in (named.run.path for named in runs):
        if path.resolve() in seen:
            raise InputError(f"{path}: given twice", hint="a run cannot be compared with itself")
        seen.add(path.resolve())


def _refuse_other_work(label: str, first: Manifest, named: Named) -> None:
    """Repeats of one label must be offered one work."""
    if reason := why_other_work(first, named.manifest):
        raise InputError(
            f"{named.run.path} is no repeat of {label!r}: {reason}",
            hint="give it a --label of its own",
        )
