"""Facts on disk: frozen schema, atomic parts, nothing lost, nothing seen twice."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadkit.errors import RunError
from loadkit.model import RequestRecord
from loadkit.records import REQUESTS_SCHEMA, Manifest, PartWriter, RunDir
from loadkit.records import parts as parts_module

MANIFEST = Manifest(
    loadkit_version="0",
    command=("loadkit", "replay"),
    created_utc="2026-01-01T00:00:00+00:00",
    trace={},
    transforms={},
    schedule={},
    target={},
    seed=1,
    workers=1,
    machine={},
    anchor={},
)


def record(name: str) -> RequestRecord:
    return RequestRecord(name, "interactive", 1.0, "ok", chunk_offsets_s=(0.5, 0.75))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    created = RunDir.create(tmp_path / "run")
    MANIFEST.write(created.manifest_path)
    return created


def test_columns_are_the_fields_of_a_record_in_their_order() -> None:
    assert tuple(REQUESTS_SCHEMA.names) == RequestRecord._fields


def test_plain_pandas_reads_what_is_closed_and_ignores_what_is_not(run: RunDir) -> None:
    writer = PartWriter(run.requests_dir, REQUESTS_SCHEMA)
    writer.add([record("a")])
    writer.close_part()
    writer.add([record("b")])
    (run.requests_dir / ".part-00001.parquet.tmp").write_bytes(b"PAR1 half a file")

    frame = pd.read_parquet(run.requests_dir)

    assert frame["request_id"].tolist() == ["a"]
    assert frame["chunk_offsets_s"][0].tolist() == [0.5, 0.75]
    assert pd.isna(frame["queue_wait_s"][0])


def test_a_new_writer_goes_on_behind_the_parts_that_are_there(run: RunDir) -> None:
    for name in ("a", "b"):
        writer = PartWriter(run.requests_dir, REQUESTS_SCHEMA)
        writer.add([record(name)])
        writer.close_part()

    assert run.requests()["request_id"].to_pylist() == ["a", "b"]


def test_many_parts_become_one_with_every_row_once(run: RunDir) -> None:
    writer = PartWriter(run.requests_dir, REQUESTS_SCHEMA)
    for i in range(70):
        writer.add([record(f"r{i}")])
        writer.close_part()

    run.compact()

    assert [p.name for p in run.requests_dir.iterdir()] == ["part-00000.parquet"]
    assert run.requests()["request_id"].to_pylist() == [f"r{i}" for i in range(70)]


def test_a_merge_cut_between_its_two_renames_is_completed_on_opening(run: RunDir) -> None:
    writer = PartWriter(run.requests_dir, REQUESTS_SCHEMA)
    writer.add([record("a")])
    writer.close_part()
    run.requests_dir.rename(run.path / ".requests.old")
    (run.path / ".requests.merged").mkdir()

    reopened = RunDir.open(run.path)

    assert reopened.requests()["request_id"].to_pylist() == ["a"]
    assert not list(run.path.glob(".requests.*"))


def test_a_run_is_never_overwritten(run: RunDir) -> None:
    with pytest.raises(RunError) as caught:
        RunDir.create(run.path)

    assert "already exists" in caught.value.message


def test_a_full_disk_keeps_the_rows_for_another_try(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = PartWriter(run.requests_dir, REQUESTS_SCHEMA)
    writer.add([record("a")])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pq, "write_table", full)
        with pytest.raises(RunError) as caught:
            writer.close_part()
    writer.close_part()

    assert "No space left" in caught.value.message
    assert run.requests()["request_id"].to_pylist() == ["a"]


def test_the_manifest_comes_back_as_it_was(run: RunDir) -> None:
    assert run.manifest() == MANIFEST


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"schema": "loadkit.run/v0"}', '{"schema": "loadkit.run/v1", "x": 1}'],
)
def test_a_damaged_or_foreign_manifest_is_a_clear_error(run: RunDir, content: str) -> None:
    run.manifest_path.write_text(content)

    with pytest.raises(RunError):
        run.manifest()


def test_a_folder_that_is_no_run_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        RunDir.open(tmp_path)

    assert "not a run directory" in caught.value.message


def test_a_part_of_another_schema_is_a_clear_error(run: RunDir) -> None:
    pq.write_table(pa.table({"x": [1]}), run.requests_dir / "part-00000.parquet")

    with pytest.raises(RunError):
        run.requests()


def test_an_empty_run_reads_as_an_empty_table(run: RunDir) -> None:
    assert run.requests().num_rows == 0
    assert parts_module.read_parts(run.requests_dir, REQUESTS_SCHEMA).schema == REQUESTS_SCHEMA
    assert json.loads(run.manifest_path.read_text())["state"] == "running"


def test_a_folder_name_that_the_system_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be created"):
        RunDir.create(tmp_path / ("x" * 300))
