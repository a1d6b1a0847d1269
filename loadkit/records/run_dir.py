"""The layout of a run directory."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loadkit.errors import RunError
from loadkit.records.manifest import Manifest
from loadkit.records.parts import compact, read_parts, recover, remove_folder
from loadkit.records.schema import METRICS_SCHEMA, REQUESTS_SCHEMA, SCHEDULE_SCHEMA


class RunDir:
    """Paths of one run, and its tables. Opening never changes anything but an interrupted merge."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest_path = path / "run.json"
        self.requests_dir = path / "requests"
        self.metrics_dir = path / "metrics"
        self.report_dir = path / "report"
        self.schedule_path = path / "schedule.parquet"
        self.work_dir = path / ".drive"

    @classmethod
    def create(cls, path: Path) -> "RunDir":
        """Make the folders of a new run. Raises RunError when anything is there already."""
        cls.require_new(path)
        run = cls(path)
        try:
            for folder in (run.requests_dir, run.metrics_dir, run.work_dir):
                folder.mkdir(parents=True)
        except OSError as error:
            raise RunError(f"{path}: cannot be created ({error.strerror})") from error
        return run

    @staticmethod
    def require_new(path: Path) -> None:
        """Raises RunError when anything is there, or nothing can be."""
        try:
            there = path.exists()
        except OSError as error:  # a name that is too long, a folder that may not be entered
            raise RunError(f"{str(path)[:80]}: cannot be created ({error.strerror})") from error
        if there:
            raise RunError(
                f"{path}: already exists",
                hint="a run is never overwritten: choose another -o, or move it away",
            )

    @classmethod
    def open(cls, path: Path) -> "RunDir":
        """Raises RunError when `path` is no run directory."""
        run = cls(path)
        run.manifest()
        for folder in (run.requests_dir, run.metrics_dir):
            recover(folder)
        return run

    def manifest(self) -> Manifest:
        return Manifest.read(self.manifest_path)

    def requests(self) -> pa.Table:
        return read_parts(self.requests_dir, REQUESTS_SCHEMA)

    def metrics(self) -> pa.Table:
        return read_parts(self.metrics_dir, METRICS_SCHEMA)

    def schedule(self) -> pa.Table:
        """What the run meant to offer; empty where a crash came before it was written."""
        if not self.schedule_path.exists():
            return SCHEDULE_SCHEMA.empty_table()
        try:
            return pq.read_table(self.schedule_path)
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{self.schedule_path}: not readable ({error})") from error

    def compact(self) -> None:
        """Merge the small parts of a run that has ended."""
        compact(self.requests_dir, REQUESTS_SCHEMA)
        compact(self.metrics_dir, METRICS_SCHEMA)

    def remove_work_dir(self) -> None:
        remove_folder(self.work_dir)
