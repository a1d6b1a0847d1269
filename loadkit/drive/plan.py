"""What a driver is told: the requests it shall offer and how. Crosses process and host borders."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from loadkit.model import Send, Target
from loadkit.prompts import Calibration


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a worker needs and nothing secret: keys are named by environment variable."""

    sends: Sequence[Send]
    target: Target
    engine: str
    model: str
    calibration: Calibration
    salt: str
    timeout_s: float
    """Per request, from its due instant."""
    max_in_flight: int | None = None
    """Of this plan; shards get their share."""
    retries: int = 0
    """Further attempts after a refusal, each a row of its own."""

    def share(self, sends: Sequence[Send], worker: int, of_workers: int) -> "Plan":
        """The part of the plan for one of several workers; the shares of the cap add up to it."""
        cap = self.max_in_flight
        if cap is not None:
            cap = cap // of_workers + (worker < cap % of_workers)
        return replace(self, sends=sends, max_in_flight=cap)

    def to_wire(self) -> dict[str, Any]:
        """A map of msgpack values."""
        return {
            "sends": list(self.sends),
            "target": asdict(self.target),
            "engine": self.engine,
            "model": self.model,
            "calibration": asdict(self.calibration),
            "salt": self.salt,
            "timeout_s": self.timeout_s,
            "max_in_flight": self.max_in_flight,
            "retries": self.retries,
        }

    @classmethod
    def from_wire(cls, values: Mapping[str, Any]) -> "Plan":
        calibration = dict(values["calibration"])
        calibration["id_range"] = tuple(calibration["id_range"])
        return cls(
            **{
                **values,
                "sends": [Send(*row) for row in values["sends"]],
                "target": Target(**values["target"]),
                "calibration": Calibration(**calibration),
            }
        )
