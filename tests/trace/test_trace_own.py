"""loadkit's own Parquet, JSONL and CSV: minimal rows, round trips, unknown columns, order."""

import gzip
import json
import re
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadkit.errors import TraceError
from loadkit.trace import TRACE_SCHEMA, ReadOptions, TraceTable, load, read_table, write
from loadkit.trace.doctor import describe
from loadkit.trace.schema import META_KEY

MINIMAL = "arrival_s,prompt_tokens,output_tokens"


def text_file(folder: Path, *lines: str, name: str = "trace") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_three_columns_are_a_trace(tmp_path: Path) -> None:
    trace = load(text_file(tmp_path, MINIMAL, "0,10,2", "1.5,,3"))
    assert trace.info.format == "csv"
    first, second = trace.requests
    assert (first.arrival_s, first.prompt_tokens, first.output_tokens) == (0.0, 10, 2)
    assert (first.lane, first.status, first.tenant, first.priority) == (
        "interactive",
        "ok",
        None,
        None,
    )
    assert second.prompt_tokens is None  # unknown, not 0
    assert first.request_id != second.request_id


def test_json_lines_carry_every_column_and_unknown_ones_travel_in_extra(tmp_path: Path) -> None:
    row = {
        "arrival_s": 2,
        "prompt_tokens": 100,
        "output_tokens": 20,
        "request_id": "r1",
        "lane": "batch",
        "tenant": "a",
        "deadline_s": 50.5,
        "priority": -1,
        "prefix_ids": [5, 6],
        "prefix_block": 16,
        "prefix_ns": "n",
        "payload": {"messages": [{"role": "user", "content": "grüße"}]},
        "colour": "red",
    }
    trace = read_table(text_file(tmp_path, json.dumps(row)))
    request = trace.to_trace().requests[0]
    assert (request.lane, request.tenant, request.deadline_s, request.priority) == (
        "batch",
        "a",
        50.5,
        -1,
    )
    assert (request.prefix_ids, request.prefix_block) == ((5, 6), 16)
    assert json.loads(request.payload or b"") == row["payload"]
    assert json.loads(trace.table["extra"][0].as_py()) == {"colour": "red"}
    assert trace.table["lane_from"].to_pylist() == ["recorded"]


ROW = st.fixed_dictionaries(
    {
        "arrival_s": st.floats(0, 1e6, allow_nan=False).map(lambda x: round(x, 6)),
        "prompt_tokens": st.none() | st.integers(0, 100_000),
        "output_tokens": st.none() | st.integers(0, 100_000),
    },
    optional={
        "tenant": st.none() | st.text("abc,\"' é", min_size=1),
        "deadline_s": st.floats(0, 1e6, allow_nan=False),
        "stream": st.booleans(),
        "think_s": st.integers(0, 100),
        "prompt": st.text('abc\\ ,"é', min_size=1),
    },
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(ROW, min_size=1, max_size=8))
@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_writing_and_reading_gives_the_same_table(
    tmp_path: Path, suffix: str, rows: list[dict[str, object]]
) -> None:
    rows.sort(key=lambda row: row["arrival_s"])  # type: ignore[arg-type,return-value]
    source = read_table(text_file(tmp_path, *map(json.dumps, rows)))
    assert [row["prompt_tokens"] for row in rows] == source.table["prompt_tokens"].to_pylist()
    path = tmp_path / f"copy.{suffix}"
    write(source, path, force=True)
    copy = read_table(path)
    assert copy.table.schema.equals(TRACE_SCHEMA)
    assert copy.table.to_pylist() == source.table.to_pylist()


def test_parquet_carries_its_provenance(tmp_path: Path) -> None:
    source = text_file(tmp_path, MINIMAL, "0,10,2", "2,1,1", "1,1,0")
    write(read_table(source), tmp_path / "t.parquet")
    schema = pq.read_schema(tmp_path / "t.parquet")
    meta = json.loads(schema.metadata[META_KEY])
    assert meta["schema_version"] == "loadkit.trace/v1"
    assert meta["rows_read"] == meta["rows_written"] == 3
    assert meta["repairs"] == {"sorted": 1, "zero_tokens_marked_error": 1}
    assert meta["sources"][0]["name"] == "trace"
    again = read_table(tmp_path / "t.parquet")
    assert again.meta["origin"] == meta


def test_small_steps_back_are_sorted_stably_and_counted(tmp_path: Path) -> None:
    path = text_file(tmp_path, MINIMAL, "0,1,1", "4,2,1", "1,3,1", "4,4,1", "4,5,1")
    trace = read_table(path)
    assert trace.table["prompt_tokens"].to_pylist() == [1, 3, 2, 4, 5]
    assert trace.table["seq"].to_pylist() == [0, 1, 2, 3, 4]
    assert trace.info.repairs == {"sorted": 1}
    assert describe(trace).out_of_order_rows == 1
    assert trace.info.warnings == ()


def test_larger_steps_back_are_sorted_with_a_warning(tmp_path: Path) -> None:
    trace = read_table(text_file(tmp_path, MINIMAL, "0,1,1", "400,2,1", "100,3,1"))
    assert trace.table["prompt_tokens"].to_pylist() == [1, 3, 2]
    assert trace.info.warnings == ("rows up to 300 s out of order were sorted",)


def two_weeks(folder: Path) -> Path:
    """Two recordings end to end, each starting near 0: sorting would double the rate."""
    week = [f"{604_000 * k // 9},{k},1" for k in range(1, 10)]
    return text_file(folder, MINIMAL, *week, *week[:4])


def test_a_clock_that_starts_again_is_refused_until_a_part_is_chosen(tmp_path: Path) -> None:
    path = two_weeks(tmp_path)
    with pytest.raises(TraceError, match="2 segments") as caught:
        read_table(path)
    assert "--segment" in caught.value.hint
    second = read_table(path, options=ReadOptions(segment=2))
    assert (second.rows, second.info.rows_read, second.info.drops) == (4, 13, {"other_segment": 9})
    with pytest.raises(TraceError, match="no segment 3"):
        read_table(path, options=ReadOptions(segment=3))


def test_segments_can_be_counted_without_choosing(tmp_path: Path) -> None:
    told = describe(read_table(two_weeks(tmp_path), refuse_segments=False))
    assert (told.segments, told.rows) == (2, 9)


def test_a_turn_whose_parent_is_outside_becomes_a_root(tmp_path: Path) -> None:
    header = f"request_id,parent_id,{MINIMAL}"
    trace = read_table(text_file(tmp_path, header, "a,,0,1,1", "b,a,1,1,1", "c,gone,2,1,1"))
    assert trace.table["parent_id"].to_pylist() == [None, "a", None]
    assert trace.info.repairs == {"orphan_turn_made_root": 1}


def test_foreign_names_with_their_unit_in_them_are_read_from_zero(tmp_path: Path) -> None:
    header = "timestamp_ms,input_length,output_length,mood"
    trace = read_table(text_file(tmp_path, header, "5000,1,2,good", "6500,3,4,bad"))
    assert trace.table["arrival_s"].to_pylist() == [0.0, 1.5]
    assert [json.loads(x.as_py())["mood"] for x in trace.table["extra"]] == ["good", "bad"]


def test_a_bare_timestamp_is_never_guessed(tmp_path: Path) -> None:
    path = text_file(tmp_path, "timestamp,prompt_tokens,output_tokens", "5000,1,2", "6000,1,2")
    with pytest.raises(TraceError, match="unit"):
        read_table(path)
    trace = read_table(path, options=ReadOptions(time_unit="ms"))
    assert trace.table["arrival_s"].to_pylist() == [0.0, 1.0]


def test_a_lane_can_be_given_to_all_rows(tmp_path: Path) -> None:
    path = text_file(tmp_path, MINIMAL, "0,1,1")
    trace = read_table(path, options=ReadOptions(lane="batch"))
    assert trace.table["lane"].to_pylist() == ["batch"]
    assert trace.table["lane_from"].to_pylist() == ["rule:lane"]


def test_gzip_and_a_byte_order_mark_make_no_difference(tmp_path: Path) -> None:
    text = f"{MINIMAL}\n0,1,2\n1,3,4\n"
    (tmp_path / "a").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b").write_bytes(b"\xef\xbb\xbf" + text.encode())
    json_row = b'\xef\xbb\xbf{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 2}\n'
    (tmp_path / "c").write_bytes(gzip.compress(json_row))
    assert read_table(tmp_path / "a").table["output_tokens"].to_pylist() == [2, 4]
    assert read_table(tmp_path / "b").table["output_tokens"].to_pylist() == [2, 4]
    assert read_table(tmp_path / "c").table["output_tokens"].to_pylist() == [2]


def test_seconds_read_as_something_else_are_suspected(tmp_path: Path) -> None:
    crowded = text_file(tmp_path, MINIMAL, *(f"{k / 1e6:.6f},1,1" for k in range(2000)))
    assert any("right unit" in text for text in read_table(crowded).info.warnings)
    endless = text_file(tmp_path, MINIMAL, "0,1,1", f"{40 * 365 * 86400},1,1")
    assert any("right unit" in text for text in read_table(endless).info.warnings)


def cut(trace: TraceTable, folder: Path) -> bytes:
    write(trace, folder / "whole.parquet", force=True)
    return (folder / "whole.parquet").read_bytes()[:-20]


JSON_ROW = '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 2}\n'
BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n \n", "is empty"),
    "header only": (f"{MINIMAL}\n".encode(), "header and no rows"),
    "header without end": (MINIMAL.encode(), "header and no rows"),
    "cut row": (f"{MINIMAL}\n0,1,2\n1,3".encode(), ":3: 2 cells in a row (want 3)"),
    "cut gzip": (gzip.compress(f"{MINIMAL}\n0,1,2\n".encode() * 999)[:-9], "cut short or damaged"),
    "gzip magic alone": (b"\x1f\x8b", "cut short or damaged"),
    "cut json": (JSON_ROW.encode() + b'{"arrival_s": 1, "pro', ":2: is not JSON"),
    "cut parquet": (b"PAR1 and nothing else", "cut short or damaged"),
    "binary": (b"\x00\x01\x02" * 99, "is binary data"),
    "binary after a header": (f"{MINIMAL}\n0,1,2\n".encode() + b"\x00\xff" * 99, "is binary data"),
    "UTF-16": (f"{MINIMAL}\n0,1,2\n".encode("utf-16"), "is UTF-16"),
    "Latin-1": (f"{MINIMAL},tenant\n0,1,2,Zoë\n1,1,1,abc\n".encode("latin-1"), ":2: is not UTF-8"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid x\n", "Git LFS pointer"),
    "unknown columns": (b"a,b,c\n1,2,3\n", "is not a trace format I know"),
    "JSON array": (f"[{JSON_ROW.strip()}]".encode(), "is not a trace format I know"),
    "prose": (b"Dear all,\nplease find attached\n", "is not a trace format I know"),
    "no output tokens": (b"arrival_s,prompt_tokens\n0,1\n", "no 'output_tokens'"),
    "twice the same column": (f"{MINIMAL},output_tokens\n0,1,2,3\n".encode(), "two columns called"),
    "NaN": (f"{MINIMAL}\n0,1,1\nNaN,1,2\n".encode(), ":3: arrival_s is 'NaN' (want a number)"),
    "infinite": (f"{MINIMAL}\n1e999,1,2\n".encode(), ":2: arrival_s is '1e999' (want a finite"),
    "negative": (f"{MINIMAL}\n0,1,1\n-3,1,2\n".encode(), ":3: arrival_s is -3.0 (want seconds"),
    "no time": (f"{MINIMAL}\n,1,2\n".encode(), ":2: arrival_s is '' (want a number)"),
    "fraction of a token": (f"{MINIMAL}\n0,1.5,2\n".encode(), ":2: prompt_tokens is '1.5'"),
    "too many tokens": (
        f"{MINIMAL}\n0,9999999999,2\n".encode(),
        ":2: prompt_tokens is '9999999999'",
    ),
    "negative tokens": (JSON_ROW.replace("2", "-2").encode(), ":1: output_tokens is -2"),
    "text for a number": (JSON_ROW.replace("2", '"2"').encode(), ":1: output_tokens is '2'"),
    "a row without tokens": (
        f'{JSON_ROW}{{"arrival_s": 1}}\n'.encode(),
        ":2: has no prompt_tokens",
    ),
    "unknown status": (f"{MINIMAL},status\n0,1,2,fine\n".encode(), "status 'fine' is not known"),
    "same id twice": (
        f"{MINIMAL},request_id\n0,1,2,a\n1,1,2,a\n".encode(),
        "request_id 'a' stands in 2",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_its_place_and_a_remedy(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read_table(path)
    assert message in caught.value.message
    assert caught.value.message.startswith(str(path))
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < len(str(path)) + 300


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_table(tmp_path / "none")
    (tmp_path / "inside.csv").touch()
    with pytest.raises(TraceError, match="is a folder") as caught:
        read_table(tmp_path)
    assert "inside.csv" in caught.value.hint


def test_a_parquet_without_its_end_is_refused(tmp_path: Path) -> None:
    content = cut(read_table(text_file(tmp_path, MINIMAL, "0,1,1")), tmp_path)
    (tmp_path / "cut.parquet").write_bytes(content)
    with pytest.raises(TraceError, match="cut short or damaged"):
        read_table(tmp_path / "cut.parquet")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1]}, "no column 'arrival_s'"),
        ({"arrival_s": [], "prompt_tokens": [], "output_tokens": []}, "has no rows"),
        ({"arrival_s": ["x"], "prompt_tokens": [1], "output_tokens": [1]}, "Failed to parse"),
        ({"arrival_s": [float("nan")], "prompt_tokens": [1], "output_tokens": [1]}, "is nan"),
    ],
)
def test_a_foreign_parquet_is_refused(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match=message):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("head", [f"{MINIMAL},prompt\n0,1,2,", '{"prompt": "'])
def test_a_line_without_end_is_bounded(tmp_path: Path, head: str) -> None:
    path = tmp_path / "long"
    path.write_text(JSON_ROW * head.startswith("{") + head + "x" * 35_000_000)
    with pytest.raises(TraceError, match="longer than 16 MiB"):
        read_table(path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
@pytest.mark.parametrize("head", [b"", f"{MINIMAL}\n".encode(), JSON_ROW.encode(), b"PAR1"])
def test_no_content_ends_in_anything_but_a_trace_or_an_error(
    tmp_path: Path, head: bytes, content: bytes
) -> None:
    path = tmp_path / "any"
    path.write_bytes(head + content)
    with suppress(TraceError):
        trace = read_table(path)
        assert trace.info.rows_read == trace.rows + sum(trace.info.drops.values())


def test_an_existing_file_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    trace = read_table(text_file(tmp_path, MINIMAL, "0,1,1"))
    kept = text_file(tmp_path, "precious", name="kept.csv")
    with pytest.raises(TraceError, match="exists already"):
        write(trace, kept)
    assert kept.read_text() == "precious\n"
    write(trace, kept, force=True)
    assert read_table(kept).rows == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("name", "message"), [("t.xlsx", "suffix"), ("none/t.csv", "is not a folder")]
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str, message: str) -> None:
    trace = read_table(text_file(tmp_path, MINIMAL, "0,1,1"))
    with pytest.raises(TraceError, match=message):
        write(trace, tmp_path / name)


@pytest.mark.parametrize(
    ("fmt", "options", "message"),
    [
        ("parquet", ReadOptions(), "is text, not parquet"),
        ("azure", ReadOptions(), "no column 'TIMESTAMP'"),
        ("tsv", ReadOptions(), "is not a format"),
        ("csv", ReadOptions(api_lane="batch"), "--api-lane means nothing"),
        ("azure", ReadOptions(time_unit="ms"), "--time-unit means nothing"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    tmp_path: Path, fmt: str, options: ReadOptions, message: str
) -> None:
    path = text_file(tmp_path, MINIMAL, "0,1,1")
    with pytest.raises(TraceError, match=re.escape(message)):
        read_table(path, fmt, options)
