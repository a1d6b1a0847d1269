"""May these runs be compared at all? Only when all were offered the same requests at the same instants."""

from collections.abc import Mapping
from typing import Any

from loadkit.errors import InputError
from loadkit.records import Manifest


def refuse_unlike(first: tuple[str, Manifest], other: tuple[str, Manifest]) -> None:
    """Raises InputError with the reason when the two runs were not offered the same schedule."""
    reason = why_unlike(first[1], other[1])
    if reason:
        raise InputError(
            f"{first[0]} and {other[0]} cannot be compared: {reason}",
            hint="replay the same trace with the same --speedup, --scale, --window, --lane and --seed",
        )


def why_unlike(a: Manifest, b: Manifest) -> str:
    """Empty when both were offered the same requests at the same instants.

    Equal schedule hashes prove it, unless what the requests ask for has a hash of its own and that
    differs. So do equal traces and transforms: a schedule follows from them. Work that is the trace's
    but for a factor is not unlike: `work` says what then may be judged.
    """
    asked = [manifest.schedule.get("work_sha256") for manifest in (a, b)]
    if all(asked) and asked[0] != asked[1]:
        return f"{_unlike_traces(a, b)}: other work at the same instants"
    if _known_equal(a.schedule.get("sha256"), b.schedule.get("sha256")):
        return ""
    if not _known_equal(a.trace.get("sha256"), b.trace.get("sha256")):
        return _unlike_traces(a, b)
    changed = _unlike_transforms(a.transforms, b.transforms)
    if changed:
        return f"their transforms of the trace differ ({changed})"
    return "" if a.seed == b.seed else f"their seeds differ ({a.seed} and {b.seed})"


def _known_equal(a: object, b: object) -> bool:
    return bool(a) and a == b


def _unlike_traces(a: Manifest, b: Manifest) -> str:
    ours, theirs = (_trace(manifest) for manifest in (a, b))
    return f"their traces differ ({ours} and {theirs})"


def _trace(manifest: Manifest) -> str:
    sha256 = str(manifest.trace.get("sha256") or "unknown")
    return f"{manifest.trace.get('source', 'a trace')}, sha256 {sha256[:12]}"


def _unlike_transforms(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    names = sorted({*a, *b} - {"batch_service"})  # scales the work, not what is offered when
    return ", ".join(
        f"{name} {_plain(a.get(name))} and {_plain(b.get(name))}"
        for name in names
        if (a.get(name) or None) != (b.get(name) or None)
    )


def _plain(value: object) -> str:
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
