"""What the generator is asked for: checked, completed from its preset, and hashed into an identity."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from loadkit.errors import InputError
from loadkit.trace.synth.presets import PRESETS, Preset

GENERATOR_VERSION = 1
"""Raised whenever the same parameters would give other rows."""
ROWS_MAX = 20_000_000


@dataclass(frozen=True, slots=True)
class Spec:
    """What to make. None is left to the preset."""

    preset: str
    duration_s: float
    rate_rps: float
    """Mean of the interactive lane over the duration, later turns included."""
    seed: int
    day_s: float = 86400.0
    """How long a day of the rate curve lasts."""
    batch_share: float | None = None
    """Batch rows / all rows."""
    tenants: int | None = None
    start_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A Spec with nothing left open."""

    preset: str
    duration_s: float
    rate_rps: float
    seed: int
    day_s: float
    batch_share: float
    tenants: int
    start_hour: float

    @property
    def tables(self) -> Preset:
        return PRESETS[self.preset]

    @property
    def params(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def identity(self) -> str:
        """sha256 of the parameters, the preset's tables and the generator's version."""
        told = json.dumps([GENERATOR_VERSION, self.params, asdict(self.tables)], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()


def resolve(spec: Spec) -> Resolved:
    """Fill in the preset's defaults. Raises InputError on parameters that cannot be."""
    if spec.preset not in PRESETS:
        raise InputError(f"{spec.preset!r} is not a preset", hint=f"known: {', '.join(PRESETS)}")
    preset = PRESETS[spec.preset]
    defaults = {
        "batch_share": preset.batch_share,
        "tenants": preset.chat.tenants,
        "start_hour": preset.start_hour,
    }
    asked = {name: value for name, value in asdict(spec).items() if value is not None}
    resolved = Resolved(**(defaults | asked))
    _check(resolved)
    return resolved


def _check(spec: Resolved) -> None:
    wrong = {
        "--duration must be longer than 0": spec.duration_s <= 0,
        "--day must be longer than 0": spec.day_s <= 0,
        "--rate must be above 0": spec.rate_rps <= 0,
        "--seed must be 0 or more": spec.seed < 0,
        "--batch-share must be from 0 to below 1": not 0 <= spec.batch_share < 1,
        "--tenants must be from 1 to 10000": not 1 <= spec.tenants <= 10_000,
        "--start-hour must be from 0 to below 24": not 0 <= spec.start_hour < 24,
    }
    for message, applies in wrong.items():
        if applies:
            raise InputError(message, hint="see `loadkit trace synth --help`")
    rows = spec.rate_rps * spec.duration_s / (1 - spec.batch_share)
    if rows > ROWS_MAX:
        raise InputError(
            f"this would make about {rows:,.0f} rows (at most {ROWS_MAX:,})",
            hint="lower --rate or --duration; a replay can superpose a trace with --scale",
        )
