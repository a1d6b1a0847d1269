"""Mooncake: milliseconds, blocks of 512, the 3 s grid, and look-alikes refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadkit.errors import TraceError
from loadkit.trace import ReadOptions, read_table
from loadkit.trace.dejitter import dejitter
from loadkit.trace.doctor import describe

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "mooncake"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data/mooncake is absent")


def row(time_ms: float, tokens: int = 600, ids: tuple[int, ...] = (0, 1), **more: Any) -> str:
    told = {"timestamp": time_ms, "input_length": tokens, "output_length": 5, "hash_ids": ids}
    return json.dumps(told | more)


def mooncake_file(folder: Path, *rows: str) -> Path:
    path = folder / "trace"
    path.write_text("\n".join(rows) + "\n")
    return path


def quantised(folder: Path, cells: int = 40) -> Path:
    """Ten requests every 3 s, the way the conversation file has them: at 3000 k or 1 ms before."""
    times = [3000 * cell - (cell % 3 == 2) for cell in range(cells) for _ in range(10)]
    return mooncake_file(folder, *(row(time) for time in times))


def test_milliseconds_become_seconds_and_hash_ids_become_prefix_blocks(tmp_path: Path) -> None:
    trace = read_table(mooncake_file(tmp_path, row(0), row(27_482.5, 1024, (0, 7))))
    assert trace.info.format == "mooncake"
    assert trace.table["arrival_s"].to_pylist() == [0.0, 27.4825]
    request = trace.to_trace().requests[1]
    assert (request.prefix_ids, request.prefix_block, request.prefix_ns) == (
        (0, 7),
        512,
        "mooncake",
    )


def test_the_grid_of_the_times_is_found_and_warned_about(tmp_path: Path) -> None:
    told = describe(read_table(quantised(tmp_path)))
    assert told.quantum_s == 3.0
    assert told.duplicate_timestamps == 360  # 9 of 10 in each of 40 cells
    assert any("3 s grid" in warning for warning in told.warnings)


def test_dejitter_spreads_inside_the_grid_by_seed_and_says_so(tmp_path: Path) -> None:
    trace = read_table(quantised(tmp_path))
    spread = dejitter(trace, 3.0, seed=4)
    assert spread.table.equals(dejitter(trace, 3.0, seed=4).table)
    assert not spread.table.equals(dejitter(trace, 3.0, seed=5).table)
    assert describe(spread).duplicate_timestamps == 0
    assert spread.meta["dejitter"] == {"law": "uniform", "width_s": 3.0, "seed": 4}
    before = dict(
        zip(
            trace.table["request_id"].to_pylist(), trace.table["arrival_s"].to_pylist(), strict=True
        )
    )
    after = zip(
        spread.table["request_id"].to_pylist(), spread.table["arrival_s"].to_pylist(), strict=True
    )
    assert all(0 <= arrival_s - before[name] < 3.0 for name, arrival_s in after)
    assert spread.table["arrival_s"].to_pylist() == sorted(spread.table["arrival_s"].to_pylist())


def test_distinct_times_have_no_coarse_grid(tmp_path: Path) -> None:
    times = [1000 * k * k / 7.3 for k in range(100)]
    told = describe(read_table(mooncake_file(tmp_path, *map(row, times))))
    assert told.quantum_s is None
    assert told.warnings == ()


def test_prefix_hits_are_what_an_endless_cache_would_serve(tmp_path: Path) -> None:
    """Eight blocks, of which one and then two were seen before."""
    path = mooncake_file(
        tmp_path,
        row(0, 1536, (0, 1, 2)),
        row(1, 1024, (0, 3)),
        row(2, 1536, (0, 1, 4)),
    )
    assert describe(read_table(path)).prefix_hit_share == pytest.approx(3 / 8)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(0, 600, (1, 2, 3)), "3 hash_ids for 600 tokens (want 2 blocks of 512)"),
        (row(0, 600, ()), "0 hash_ids for 600 tokens (want 2 blocks of 512)"),
        (row(0, 600, ("a", "b")), "hash_ids is ['a', 'b'] (want a list of integers)"),  # type: ignore[arg-type]
        (
            '{"timestamp": true, "input_length": 1, "output_length": 1, "hash_ids": []}',
            "timestamp is True",
        ),
        (
            '{"timestamp": 0, "input_length": "1", "output_length": 1, "hash_ids": []}',
            "input_length is '1'",
        ),
        ('{"timestamp": 0, "output_length": 1, "hash_ids": []}', "input_length is None"),
        ('{"timestamp": 0, "input_le', "is not JSON"),
        ("[1]", "is [1] (want a JSON object)"),
        (
            '{"timestamp": NaN, "input_length": 1, "output_length": 1, "hash_ids": []}',
            "is not JSON",
        ),
        (
            '{"timestamp": 1e999, "input_length": 1, "output_length": 1, "hash_ids": []}',
            "timestamp is inf",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, bad: str, message: str) -> None:
    path = mooncake_file(tmp_path, row(0), "", bad)
    with pytest.raises(TraceError) as caught:
        read_table(path)
    assert caught.value.message.startswith(f"{path}:3: {message}")


@pytest.mark.parametrize(
    "foreign",
    [
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.1, "type": "text", "turn": 1},
        {"timestamp": "27", "hash_ids": {"sys_prompt": [1]}, "session_id": "u1"},
    ],
    ids=["qwen-bailian", "ragpulse"],
)
def test_look_alikes_in_other_units_are_not_read_as_milliseconds(
    tmp_path: Path, foreign: dict[str, Any]
) -> None:
    told = {"input_length": 600, "output_length": 5, "hash_ids": [1]} | foreign
    with pytest.raises(TraceError, match="unit of 'timestamp' is not known"):
        read_table(mooncake_file(tmp_path, json.dumps(told)))


def test_another_unit_must_be_asked_for(tmp_path: Path) -> None:
    path = mooncake_file(tmp_path, row(0), row(5))
    trace = read_table(path, options=ReadOptions(time_unit="s"))
    assert trace.table["arrival_s"].to_pylist() == [0.0, 5.0]


@needs_data
@pytest.mark.parametrize(
    ("name", "rows", "repeats"),
    [("conversation_compact.csv", 12_031, 10_851), ("conversation_trace.head.jsonl", 1_168, 1_035)],
)
def test_the_conversation_file_sits_on_a_three_second_grid(
    name: str, rows: int, repeats: int
) -> None:
    told = describe(read_table(DATA / name))
    assert (told.rows, told.duplicate_timestamps, told.quantum_s) == (rows, repeats, 3.0)


@needs_data
def test_the_synthetic_file_is_poisson_and_shares_its_published_part_of_prefixes() -> None:
    told = describe(read_table(DATA / "synthetic_trace.jsonl"))
    assert (told.rows, told.quantum_s) == (3_993, 0.001)
    assert told.cv_gaps == pytest.approx(1.011, abs=0.001)
    assert told.prefix_hit_share == pytest.approx(0.640, abs=0.001)
