"""What one emulator is: everything the command line can say about it."""

from dataclasses import dataclass, field
from pathlib import Path

from loadkit.core import POLICIES, PROFILES, EngineLimits, Policy, StepCost
from loadkit.emulator.faults import Fault


@dataclass(frozen=True, slots=True)
class EmulatorConfig:
    model: str = "emulated"
    host: str = "127.0.0.1"
    port: int = 8000
    """0 = any free port."""
    port_file: Path | None = None
    """Where the port is written once the server answers."""
    policy: Policy = POLICIES["fcfs"]
    limits: EngineLimits = field(default_factory=EngineLimits)
    cost: StepCost = PROFILES["h100-8b"].cost
    busy_status: int = 503
    """HTTP status of a refusal by a full queue: 503 as vLLM, or 429."""
    api_key: str | None = field(default=None, repr=False)
    ledger: Path | None = None
    faults: tuple[Fault, ...] = ()
