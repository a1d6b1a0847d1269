"""What `loadkit sim` was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from loadkit.core import PROFILES, EngineLimits, Policy, StepCost
from loadkit.errors import InputError
from loadkit.schedule import Transforms
from loadkit.sim import SlotOptions

Level = Literal["slot", "token"]


@dataclass(frozen=True, slots=True)
class SimOptions:
    trace: Path
    policies: Sequence[Policy]
    level: Level | None = None
    """None = slot where the trace has service times, else token."""
    slots: SlotOptions = field(default_factory=SlotOptions)
    limits: EngineLimits = field(default_factory=EngineLimits)
    profile: str = "h100-8b"
    """Name in `PROFILES`, or the file that `cost` was read from."""
    cost: StepCost = PROFILES["h100-8b"].cost
    transforms: Transforms = field(default_factory=Transforms)
    batch_service: float = 1.0
    """Slot level: factor on the service times of batch lanes."""
    late_s: float = 2.0
    output: Path | None = None
    command: Sequence[str] = ()


def level_of(options: SimOptions, *, timed: bool) -> Level:
    """Raises InputError for flags that the level has no use for."""
    level: Level = options.level or ("slot" if timed else "token")
    unused = {
        "--tick": options.slots.tick_s is not None,
        "--preempt-cost": options.slots.preempt_cost_s != 0.0,
        "--batch-service": options.batch_service != 1.0,
    }
    given = [flag for flag, there in unused.items() if there]
    if level == "token" and given:
        raise InputError(
            f"{given[0]} is of no use at token level: the engine model has steps of its own",
            hint="leave it out, or use --level slot",
        )
    return level
