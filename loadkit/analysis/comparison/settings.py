"""What was set beside the policy: tells apart runs that share a policy and differ in a flag.

Only what the manifests say: a setting that a run does not tell is never taken to be like another's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadkit.records import Manifest

_OF_ONE_RUN = ("url", "prompt_salt", "calibration", "unknown")
"""Parts of a target that change from run to run of the same server."""
_SAID_BY_PROFILE = ("cost",)
_SAME_AS = {"max_num_seqs": "slots"}
_TITLES = {
    "preempt_cost_s": "eviction cost",
    "max_num_batched_tokens": "token budget",
    "kv_blocks": "KV blocks",
    "block_tokens": "block size",
    "chunk_tokens": "chunk size",
    "max_model_len": "model length",
    "batch_service": "batch service",
}
_LONGEST_TEXT = 40
_UNITS_S = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_SECONDS_UP_TO = 120
"""60 s and 90 s read better than minutes; 21,600 s does not."""


@dataclass(frozen=True, slots=True)
class Settings:
    differing: tuple[str, ...]
    """Keys in which the arms differ, `policy` among them where the labels do not say it."""
    shared: Mapping[str, Any]
    """Key → the value that every arm has."""


def settings_of(manifest: Manifest) -> dict[str, Any]:
    """Key → value, the policy apart: `slots`, `preempt_cost_s`, `kv_blocks`, `batch_service` …"""
    found: dict[str, Any] = {}
    built_in = not str(manifest.target.get("profile", ".toml")).endswith(".toml")
    for key, value in manifest.target.items():
        if key in (*_OF_ONE_RUN, "policy") or (key in _SAID_BY_PROFILE and built_in):
            continue
        for name, each in value.items() if isinstance(value, Mapping) else ((key, value),):
            found.setdefault(_SAME_AS.get(str(name), str(name)), each)
    if "batch_service" in manifest.transforms:
        found["batch_service"] = manifest.transforms["batch_service"]
    return found


def differing(settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Keys told with more than one value; who does not tell a key does not differ in it."""
    keys = dict.fromkeys(key for each in settings for key in each)
    return tuple(
        key for key in keys if len({repr(each[key]) for each in settings if key in each}) > 1
    )


def split(settings: Sequence[Mapping[str, Any]]) -> Settings:
    """In which the arms differ and which they all share; what nobody knows is neither."""
    first = settings[0] if settings else {}
    shared = {
        key: value
        for key, value in first.items()
        if value is not None and all(key in each and each[key] == value for each in settings)
    }
    return Settings(differing(settings), shared)


def title(key: str) -> str:
    """`preempt_cost_s` → `eviction cost`."""
    return _TITLES.get(key) or key.removesuffix("_s").replace("_", " ")


def text(key: str, value: object) -> str:
    """With its unit: `60 s`, `6 h`, `0.5x`, `on`; `none` for what is not set."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return _number(key, float(value))
    return str(value)[:_LONGEST_TEXT]


def _number(key: str, value: float) -> str:
    if key == "batch_service":
        return f"{value:g}x"
    return _seconds(value) if key.endswith("_s") else f"{value:,.12g}"


def _seconds(value_s: float) -> str:
    """A whole number of the largest unit that gives one: 21600 → `6 h`, 90 → `90 s`, 0.006 → `6 ms`."""
    for size_s, unit in _UNITS_S:
        count = value_s / size_s
        whole = count >= 1 and abs(count - round(count)) < 1e-9
        if whole and not (size_s > 1 and value_s <= _SECONDS_UP_TO):
            return f"{count:,.0f} {unit}"
    return f"{value_s:g} s"
