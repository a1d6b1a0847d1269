"""Facts on disk: the run directory, its Parquet parts and its manifest."""

from loadkit.records.manifest import MANIFEST_SCHEMA, STOPPED_EARLY, Manifest, machine
from loadkit.records.parts import PartWriter, to_table, write_table
from loadkit.records.run_dir import RunDir
from loadkit.records.schema import METRICS_SCHEMA, REQUESTS_SCHEMA, SCHEDULE_SCHEMA, schedule_rows

__all__ = [
    "MANIFEST_SCHEMA",
    "METRICS_SCHEMA",
    "REQUESTS_SCHEMA",
    "SCHEDULE_SCHEMA",
    "STOPPED_EARLY",
    "Manifest",
    "PartWriter",
    "RunDir",
    "machine",
    "schedule_rows",
    "to_table",
    "write_table",
]
