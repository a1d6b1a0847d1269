"""`run.json`: everything about a run that is not a row."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from loadkit.errors import RunError

MANIFEST_SCHEMA = "loadkit.run/v1"

RunState = Literal["running", "finished", "stopped", "failed"]
"""`running` in a run that nobody ended means that the command was killed."""
STOPPED_EARLY = "stopped early"
"""`ended_why` of a run that a stop rule ended begins with it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a run. Mappings hold plain JSON values."""

    loadkit_version: str
    command: tuple[str, ...]
    """The command line, secrets never part of it."""
    created_utc: str
    trace: Mapping[str, Any]
    """`source, format, sha256, rows, drops, repairs, warnings`."""
    transforms: Mapping[str, Any]
    """`speedup, scale, window_s, lanes` and what they dropped."""
    schedule: Mapping[str, Any]
    """`sha256, requests, duration_s, lanes: {NAME: n}, prompt_tokens, output_tokens, recorded_duration_s`."""
    target: Mapping[str, Any]
    """`url, api, model, stream, engine, version, capacity: {max_num_seqs, kv_blocks, …}, calibration`."""
    seed: int
    workers: int
    machine: Mapping[str, Any]
    anchor: Mapping[str, float]
    """`monotonic_s, unix_s` of the start of the run: instant 0 of every row."""
    slos: tuple[Mapping[str, Any], ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    """`timeout_s, max_in_flight, max_send_lag_s` as asked."""
    state: RunState = "running"
    ended_s: float | None = None
    ended_why: str | None = None
    """In plain words; None while running."""
    events: tuple[Mapping[str, Any], ...] = ()
    """`{t_s, what}`: worker lost, server restarted, scrape failed, stopped by Ctrl-C …"""
    validity: Mapping[str, Any] | None = None
    """`{valid: bool, reasons: [str]}`; None until judged."""
    schema: str = MANIFEST_SCHEMA

    def write(self, path: Path) -> None:
        """Atomic. Raises RunError."""
        hidden = path.with_name(f".{path.name}.tmp")
        try:
            hidden.write_text(json.dumps(asdict(self), indent=2, default=str) + "\n", "utf-8")
            hidden.replace(path)
        except OSError as error:
            raise RunError(f"{path}: cannot be written ({error.strerror})") from error

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Raises RunError when the file is missing, damaged or of another schema."""
        try:
            values = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise RunError(
                f"{path.parent}: not a run directory (run.json: {error.strerror})",
                hint="give the folder that `loadkit replay -o` wrote",
            ) from error
        except ValueError as error:
            raise RunError(f"{path}: not valid JSON ({error})") from error
        if not isinstance(values, dict) or values.get("schema") != MANIFEST_SCHEMA:
            found = values.get("schema") if isinstance(values, dict) else type(values).__name__
            raise RunError(
                f"{path}: schema {found!r}, this version reads {MANIFEST_SCHEMA!r}",
                hint="read it with the loadkit version that wrote it",
            )
        for name in ("command", "slos", "events"):
            values[name] = tuple(values.get(name, ()))
        try:
            return cls(**values)
        except TypeError as error:
            raise RunError(f"{path}: {error}") from error


def machine() -> dict[str, Any]:
    """What a reader needs to judge the client; no host or user name."""
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "processor": platform.machine(),
    }
