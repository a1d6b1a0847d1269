"""What a search keeps on disk: enough to go on after any interruption."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadkit.analysis.knee.result import KNEE_FILE, KNEE_SCHEMA, read_search
from loadkit.errors import InputError, RunError
from loadkit.knee.options import KneeOptions
from loadkit.trace import TraceTable


@dataclass(slots=True)
class Kept:
    """The content of KNEE_FILE."""

    path: Path
    asked: dict[str, Any]
    done: list[dict[str, Any]] = field(default_factory=list)

    def save(self, ended_why: str | None = None) -> None:
        """Atomic. Raises RunError."""
        hidden = self.path.with_suffix(".tmp")
        told = {
            "schema": KNEE_SCHEMA, "asked": self.asked, "steps": self.done, "ended_why": ended_why,
        }  # fmt: skip
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            hidden.write_text(json.dumps(told, indent=1), "utf-8")
            hidden.replace(self.path)
        except OSError as error:
            why = f"{self.path}: cannot be written ({error.strerror})"
            raise RunError(
                why, hint="the steps so far are kept: the same command goes on"
            ) from error


def kept(options: KneeOptions, table: TraceTable) -> Kept:
    """The search in the output folder, or a new one. Raises InputError where another lies there."""
    search = asdict(options.search)
    asked = {
        "trace": str(options.trace),
        "trace_sha256": table.info.sha256,
        "target": options.target,
        "settings": json.loads(json.dumps(options.settings)),
        "search": json.loads(json.dumps(search)),
        "scaled": list(options.scaled),
        "lanes": list(options.lanes),
        "seed": options.seed,
        "max_model_len": options.max_model_len,
    }
    path = options.output / KNEE_FILE
    if not path.exists():
        folder = options.output
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{options.output}: exists and is no search", hint="give a new -o")
        new = Kept(path, asked)
        new.save()
        return new
    told = read_search(options.output)
    if told.get("asked") != asked:
        differs = sorted(k for k in asked if asked[k] != told.get("asked", {}).get(k))
        raise InputError(
            f"{options.output}: holds a search with another {', '.join(differs)}",
            hint="ask for the same again to go on with it, or give a new -o",
        )
    return Kept(path, asked, told["steps"])
