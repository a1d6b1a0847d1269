"""Azure traces: both years' stamps, every digit kept, and the published files' own figures."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.errors import TraceError
from loadkit.trace import read_table
from loadkit.trace.doctor import describe

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "azure2023"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/azure2023 is absent")


def azure_file(folder: Path, *rows: str, end: str = "\r\n") -> Path:
    path = folder / "any_name.txt"
    path.write_bytes(end.join([HEADER, *rows]).encode())
    return path


def test_seven_digits_crlf_and_no_final_newline_are_read_exactly(tmp_path: Path) -> None:
    """Golden rows of the 2023 layout: gaps of 100 ns survive."""
    path = azure_file(
        tmp_path,
        "2023-11-16 18:17:03.9799600,4808,10",
        "2023-11-16 18:17:03.9799601,3180,8",
        "2023-11-16 18:17:05.0000000,110,27",
    )
    trace = read_table(path)
    assert trace.info.format == "azure"
    assert trace.table["arrival_s"].to_pylist() == pytest.approx([0.0, 1e-7, 1.02004], abs=1e-12)
    assert trace.table["prompt_tokens"].to_pylist() == [4808, 3180, 110]
    assert trace.table["output_tokens"].to_pylist() == [10, 8, 27]
    assert trace.table["source_row"].to_pylist() == [2, 3, 4]
    assert trace.info.t0_utc == "2023-11-16T18:17:03.979960+00:00"
    assert trace.meta["time_resolution_s"] == pytest.approx(1e-7)


def test_a_whole_second_with_an_offset_is_a_row_like_any_other(tmp_path: Path) -> None:
    """Golden rows of the 2024 layout, where a whole second has no fraction."""
    path = azure_file(
        tmp_path,
        "2024-05-12 00:00:00+00:00,100,1",
        "2024-05-12 00:00:00.250000+00:00,100,2",
        "2024-05-12T02:00:01+02:00,100,3",
        "2024-05-12T00:00:02Z,100,4",
        end="\n",
    )
    trace = read_table(path)
    assert trace.table["arrival_s"].to_pylist() == [0.0, 0.25, 1.0, 2.0]
    assert trace.info.warnings == ()


def test_stamps_without_a_zone_are_taken_as_utc_and_that_is_said(tmp_path: Path) -> None:
    trace = read_table(azure_file(tmp_path, "2023-11-16 18:17:03.9799600,4808,10"))
    assert any("UTC" in warning for warning in trace.info.warnings)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3_000_000_000), min_size=1, max_size=20))
def test_any_microsecond_survives(
    tmp_path_factory: pytest.TempPathFactory, ticks: list[int]
) -> None:
    ticks.sort()
    start = datetime(2024, 5, 12, tzinfo=UTC)
    stamps = [str(start + timedelta(microseconds=tick)) for tick in ticks]
    path = azure_file(tmp_path_factory.mktemp("azure"), *(f"{stamp},1,1" for stamp in stamps))
    told = read_table(path).table["arrival_s"].to_pylist()
    assert [round(value * 1e6) for value in told] == [tick - ticks[0] for tick in ticks]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2023-11-16 18:17:03.97,x,10", "ContextTokens is 'x' (want an integer)"),
        ("2023-11-16 18:17:03.97,12,", "GeneratedTokens is '' (want an integer)"),
        ("2023-11-16 18:17:03.97,12,-1", "GeneratedTokens is '-1' (want an integer from 0"),
        ("2023-11-16 18:17:03.97,1.5,2", "ContextTokens is '1.5' (want an integer)"),
        ("2023-13-16 18:17:03.97,12,10", "TIMESTAMP is '2023-13-16 18:17:03.97'"),
        ("NaN,12,10", "TIMESTAMP is 'NaN'"),
        ("2023-11-16 18:17:03.97,12", "2 cells in a row (want 3)"),
    ],
)
def test_a_bad_cell_is_named_with_file_and_line(tmp_path: Path, row: str, message: str) -> None:
    """The blank line counts: an editor must find the row where the message says."""
    path = azure_file(tmp_path, "2023-11-16 18:17:01.0,5,5", "", row, end="\n")
    with pytest.raises(TraceError) as caught:
        read_table(path)
    assert caught.value.message.startswith(f"{path}:4: {message}")
    assert caught.value.hint


@needs_data
def test_the_conversation_file_has_its_published_rows_and_every_instant_is_distinct() -> None:
    told = describe(read_table(DATA / "AzureLLMInferenceTrace_conv.csv"))
    assert (told.rows, told.duplicate_timestamps, told.known) == (19_366, 0, True)
    assert told.time_resolution_s == pytest.approx(1e-7)
    # Counted by another program on the same rows.
    assert told.lanes["interactive"].rate_rps == pytest.approx(5.53, abs=0.005)
    assert told.cv_gaps == pytest.approx(1.09, abs=0.01)
    dispersion = [told.dispersion[width] for width in ("1s", "10s", "60s")]
    assert dispersion == pytest.approx([1.39, 3.87, 16.4], rel=0.02)
    output = told.lanes["interactive"].output_tokens
    assert output
    assert (output.p5, output.p50, output.p99) == (41, 129, 601)


@needs_data
def test_the_conversation_file_agrees_with_the_standard_library_row_by_row() -> None:
    path = DATA / "AzureLLMInferenceTrace_conv.csv"
    lines = path.read_bytes().decode().split("\r\n")[1:]
    # datetime takes six digits; the seventh is 0 throughout the file.
    stamps = [datetime.fromisoformat(line.split(",")[0][:26]) for line in lines]
    expected = [(stamp - stamps[0]) / timedelta(seconds=1) for stamp in stamps]
    assert read_table(path).table["arrival_s"].to_pylist() == pytest.approx(expected, abs=1e-9)


@needs_data
def test_the_code_file_falls_silent_twelve_times() -> None:
    told = describe(read_table(DATA / "AzureLLMInferenceTrace_code.csv"))
    assert (told.rows, told.silences.count) == (8_819, 12)
    assert told.silences.shortest_s is not None
    assert told.silences.longest_s is not None
    assert (int(told.silences.shortest_s), int(told.silences.longest_s)) == (65, 217)
