"""Parts of a trace at any rate."""

from pathlib import Path

import numpy as np
import pytest

from loadkit.errors import InputError
from loadkit.knee.segments import require_length, segment
from loadkit.trace import TraceTable, read_table

SPAN_S = 1000


@pytest.fixture
def trace(tmp_path: Path) -> TraceTable:
    """One interactive request a second in conversations of three, one batch row every ten seconds."""
    rows = ["request_id,arrival_s,lane,session,prompt_tokens,output_tokens"]
    for second in range(SPAN_S + 1):
        rows.append(f"i{second},{second},interactive,s{second // 3},10,5")
        if second % 10 == 0:
            rows.append(f"b{second},{second},batch,,100,50")
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(rows) + "\n")
    return read_table(path)


def drawn(
    trace: TraceTable, rate_rps: float, seed: int = 1, *scaled: str
) -> list[dict[str, object]]:
    part = segment(trace, rate_rps, 100.0, np.random.default_rng(seed), scaled)
    return part.table.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("rate_rps", [0.3, 1.1, 7.0])
def test_the_mean_rate_is_the_one_asked_for(trace: TraceTable, rate_rps: float) -> None:
    counts = [len(drawn(trace, rate_rps, seed)) for seed in range(40)]
    standard_error = (rate_rps * 100 / 40) ** 0.5
    assert np.mean(counts) == pytest.approx(
        rate_rps * 100, abs=5 * standard_error + 0.03 * rate_rps * 100
    )


def test_counts_vary_from_step_to_step_as_random_arrivals_do(trace: TraceTable) -> None:
    counts = [len(drawn(trace, 7.0, seed)) for seed in range(100)]
    # Poisson with mean 700; thinning by conversations of three adds a little.
    assert 0.5 * 700 < np.var(counts, ddof=1) < 2 * 700


def test_everything_arrives_within_the_step_and_in_order(trace: TraceTable) -> None:
    arrivals = [float(str(row["arrival_s"])) for row in drawn(trace, 5.0)]
    assert arrivals == sorted(arrivals)
    assert min(arrivals) >= 0 and max(arrivals) < 100


def test_ids_are_unique_and_conversations_stay_apart(trace: TraceTable) -> None:
    rows = drawn(trace, 5.0)
    assert len({row["request_id"] for row in rows}) == len(rows)
    sizes: dict[object, int] = {}
    for row in rows:
        if row["session"]:
            sizes[row["session"]] = sizes.get(row["session"], 0) + 1
    assert max(sizes.values()) == 3


def test_a_thinned_window_keeps_conversations_whole(trace: TraceTable) -> None:
    rows = [row for row in drawn(trace, 0.3) if row["lane"] == "interactive"]
    sizes: dict[object, int] = {}
    for row in rows:
        sizes[row["session"]] = sizes.get(row["session"], 0) + 1
    # Only where the window begins and ends is a conversation cut.
    assert sum(size != 3 for size in sizes.values()) <= 2


def test_every_seed_draws_another_part(trace: TraceTable) -> None:
    assert drawn(trace, 1.0, 1) == drawn(trace, 1.0, 1)
    assert drawn(trace, 1.0, 1) != drawn(trace, 1.0, 2)


def test_other_lanes_come_once_as_recorded_beside_the_scaled_one(trace: TraceTable) -> None:
    for seed in range(10):
        rows = drawn(trace, 5.0, seed, "interactive")
        batch = [row for row in rows if row["lane"] == "batch"]
        assert 9 <= len(batch) <= 11


def test_windows_go_round_so_that_every_part_is_drawn_alike(trace: TraceTable) -> None:
    seen = np.zeros(SPAN_S + 1)
    for seed in range(400):
        for row in drawn(trace, 1.0, seed):
            name = str(row["request_id"]).partition("~")[0]
            if name[0] == "i":
                seen[int(name[1:])] += 1
    tenths = seen[:1000].reshape(10, 100).sum(axis=1)
    assert tenths.min() > 0.75 * tenths.mean()


def test_a_trace_shorter_than_a_step_is_refused(trace: TraceTable) -> None:
    with pytest.raises(InputError, match="lasts"):
        require_length(trace, SPAN_S + 1.0)
    require_length(trace, SPAN_S)


def test_a_trace_too_thin_for_the_rate_is_refused(trace: TraceTable) -> None:
    with pytest.raises(InputError, match="too thin"):
        segment(trace, 1e4, 100.0, np.random.default_rng(1), ("batch",))
