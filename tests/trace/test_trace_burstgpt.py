"""BurstGPT: three layouts by column name, failures kept, lanes from the log type."""

from pathlib import Path

import pytest

from loadkit.errors import TraceError
from loadkit.trace import ReadOptions, read_table
from loadkit.trace.doctor import describe

SIX = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
EIGHT = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
)
SHUFFLED = "Log Type,Response tokens,Request tokens,Model,Timestamp"


def burst_file(folder: Path, *lines: str) -> Path:
    path = folder / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "lines",
    [
        (SIX, "5,ChatGPT,472,18,490,Conversation log", "45,GPT-4,1087,0,1087,API log"),
        (
            EIGHT,
            "19440110.0,abc,3.5,ChatGPT,472,18,490,Conversation log",
            "19440150.0,,,GPT-4,1087,0,1087,API log",
        ),
        (SHUFFLED, "Conversation log,18,472,ChatGPT,5", "API log,0,1087,GPT-4,45"),
    ],
    ids=["six columns", "eight columns", "another order"],
)
def test_every_layout_gives_the_same_rows(tmp_path: Path, lines: tuple[str, ...]) -> None:
    trace = read_table(burst_file(tmp_path, *lines))
    assert trace.info.format == "burstgpt"
    told = trace.table.select(
        ["arrival_s", "prompt_tokens", "output_tokens", "model", "status", "lane"]
    ).to_pylist()
    assert [tuple(row.values()) for row in told] == [
        (0.0, 472, 18, "ChatGPT", "ok", "interactive"),
        (40.0, 1087, 0, "GPT-4", "error", "interactive"),
    ]


def test_session_and_latency_of_the_third_file_are_kept_and_blank_is_unknown(
    tmp_path: Path,
) -> None:
    path = burst_file(
        tmp_path,
        EIGHT,
        "19440110.0,abc,3.5,ChatGPT,472,18,490,Conversation log",
        "19440150.0,,,GPT-4,1087,5,1092,API log",
    )
    trace = read_table(path)
    assert trace.table["session"].to_pylist() == ["abc", None]
    assert trace.table["rec_e2e_s"].to_pylist() == [3.5, None]
    assert trace.meta["t0_local_midnight_s"] == 19_440_110.0


def test_failed_requests_stay_rows_and_are_counted(tmp_path: Path) -> None:
    rows = [f"{t},ChatGPT,10,{0 if t % 4 == 0 else 7},17,API log" for t in range(100)]
    trace = read_table(burst_file(tmp_path, SIX, *rows))
    assert trace.rows == 100
    assert trace.info.repairs == {"zero_tokens_marked_error": 25}
    assert describe(trace).zero_token_rows == 25


def test_api_rows_may_be_put_into_a_lane_of_their_own(tmp_path: Path) -> None:
    path = burst_file(
        tmp_path, SIX, "5,ChatGPT,4,18,22,Conversation log", "45,GPT-4,10,1,11,API log"
    )
    trace = read_table(path, options=ReadOptions(api_lane="batch"))
    assert trace.table["lane"].to_pylist() == ["interactive", "batch"]


def test_whole_seconds_are_reported_as_a_grid(tmp_path: Path) -> None:
    rows = [f"{t // 3 * 7},ChatGPT,10,7,17,API log" for t in range(90)]
    told = describe(read_table(burst_file(tmp_path, SIX, *rows)))
    assert told.quantum_s == 1.0
    assert told.duplicate_timestamps == 60


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,ChatGPT,1,1,2,API log", "Timestamp is 'x' (want a number)"),
        ("nan,ChatGPT,1,1,2,API log", "Timestamp is 'nan' (want a number)"),
        ("5,ChatGPT,1.5,1,2,API log", "Request tokens is '1.5' (want an integer)"),
        ("5,ChatGPT,1,1,2,Batch log", "Log Type is 'Batch log' (want"),
    ],
)
def test_a_bad_cell_is_named(tmp_path: Path, row: str, message: str) -> None:
    path = burst_file(tmp_path, SIX, "5,ChatGPT,1,1,2,API log", row)
    with pytest.raises(TraceError) as caught:
        read_table(path)
    assert caught.value.message.startswith(f"{path}:3: {message}")


def test_a_forged_file_under_a_published_name_is_told(tmp_path: Path) -> None:
    path = tmp_path / "BurstGPT_1.csv"
    path.write_text(f"{SIX}\n" + "".join(f"{t},ChatGPT,9,9,18,API log\n" for t in range(250)))
    told = describe(read_table(path))
    assert told.known is False
    assert any("not its published bytes" in warning for warning in told.warnings)
