"""The doctor's numbers against hand-made processes whose values are known."""

from pathlib import Path

import numpy as np
import pytest

from loadkit.trace import read_table, stats
from loadkit.trace.doctor import describe


def test_counts_by_hand_give_the_index_of_dispersion() -> None:
    """Bins of 1 s hold 3, 0, 1 arrivals: mean 4/3, variance 14/9, so 7/6. The cut last bin is out."""
    arrival_s = np.array([0.0, 0.1, 0.9, 2.5, 3.2])
    assert stats.dispersion(arrival_s, 1.0) == pytest.approx(7 / 6)
    assert stats.dispersion(arrival_s, 10.0) is None


def test_even_arrivals_have_no_spread_and_poisson_ones_have_unit_spread() -> None:
    even = np.arange(0.0, 1000.0, 0.25)
    assert stats.cv_of_gaps(even) == pytest.approx(0.0)
    assert stats.dispersion(even, 1.0) == pytest.approx(0.0)
    poisson = np.cumsum(np.random.default_rng(7).exponential(0.1, 100_000))
    assert stats.cv_of_gaps(poisson) == pytest.approx(1.0, abs=0.02)
    assert stats.dispersion(poisson, 10.0) == pytest.approx(1.0, abs=0.15)


def test_a_single_instant_has_no_statistics() -> None:
    once = np.zeros(5)
    assert stats.cv_of_gaps(once) is None
    assert stats.dispersion(once, 1.0) is None
    assert stats.grid_s(once) is None


def test_a_silence_is_long_against_both_a_minute_and_the_mean_gap() -> None:
    busy = np.concatenate((np.arange(0.0, 600.0), np.arange(665.0, 1000.0), [1061.0]))
    told = stats.silences(busy)
    assert (told.count, told.shortest_s, told.longest_s) == (2, 62.0, 66.0)
    hourly = np.arange(0.0, 100.0) * 3600
    assert stats.silences(hourly).count == 0


@pytest.mark.parametrize("width_s", [0.001, 0.1, 1.0, 3.0, 60.0])
def test_the_widest_grid_is_found(width_s: float) -> None:
    cells = np.random.default_rng(1).integers(0, 100_000, 3000).astype(np.float64)
    assert stats.grid_s(np.sort(cells) * width_s) == width_s


def test_continuous_times_have_no_grid() -> None:
    assert stats.grid_s(np.sort(np.random.default_rng(1).uniform(0, 3600, 3000))) is None


def test_rows_of_one_batch_job_are_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{k},10,1,interactive," for k in range(30)] + ["31,10,1,batch,job"] * 100
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,lane,batch_id", *rows]))
    told = describe(read_table(path))
    assert (told.duplicate_timestamps, told.batch_jobs, told.rows) == (0, 1, 130)
    assert told.warnings == ()
    assert {name: lane.rows for name, lane in told.lanes.items()} == {
        "interactive": 30,
        "batch": 100,
    }
    assert told.lanes["batch"].rate_rps == pytest.approx(100 / 31)
