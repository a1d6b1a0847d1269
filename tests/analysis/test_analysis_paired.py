"""The statistics of a comparison against hand-computed values and against truth that is known."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from loadkit.analysis.comparison.paired import (
    Estimate,
    Verdict,
    estimate,
    holm,
    interval,
    of_differences,
    p_value,
    pairs_needed,
    verdict,
)

MARGIN = math.log(1.1)


def judged(d: Sequence[float] | NDArray[np.floating], margin: float = MARGIN) -> Verdict:
    """The verdict on one measure by itself."""
    found = of_differences(np.asarray(d, float))
    return verdict(found, p_value(found), margin, "lower")


def test_the_interval_is_students_t_over_the_pairs() -> None:
    found = of_differences(np.array([0.1, 0.2, 0.3]))
    ends = interval(found)
    assert ends is not None
    assert ends == pytest.approx(
        (0.2 - 0.248414, 0.2 + 0.248414), abs=1e-6
    )  # t(.975, 2) = 4.302653


def test_a_relative_change_is_the_mean_of_log_ratios() -> None:
    found = estimate([1.0, 2.0], [2.0, 8.0], relative=True)
    assert math.exp(found.mean) == pytest.approx(math.sqrt(8))


def test_the_p_value_is_that_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=8), rng.normal(0.5, 1, size=8)
    expected = stats.ttest_rel(b, a).pvalue
    assert p_value(estimate(a.tolist(), b.tolist(), relative=False)) == pytest.approx(expected)


def test_holm_agrees_with_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@pytest.mark.parametrize(
    ("sd", "five_percent", "ten_percent"),
    [(0.02, 4, 3), (0.05, 7, 4), (0.10, 19, 7), (0.15, 39, 12)],
)
def test_the_pairs_that_are_needed_agree_with_published_tables(
    sd: float, five_percent: int, ten_percent: int
) -> None:
    found = Estimate(5, 0.0, sd)
    assert pairs_needed(found, math.log(1.05)) == five_percent
    assert pairs_needed(found, math.log(1.10)) == ten_percent


@pytest.mark.parametrize("d", [[3.0], [3.0, 3.1]])
def test_one_or_two_pairs_of_live_runs_are_inconclusive_whatever_they_show(d: list[float]) -> None:
    assert judged(d) == "inconclusive"


def test_a_single_pair_has_no_interval() -> None:
    assert interval(of_differences(np.array([3.0]))) is None


@pytest.mark.parametrize(
    ("d", "said"),
    [
        ([-0.50, -0.52, -0.48, -0.51], "better"),
        ([0.50, 0.52, 0.48, 0.51], "worse"),
        ([0.01, -0.01, 0.02, 0.00], "no difference shown"),
        ([0.03, 0.031, 0.029, 0.03], "no difference shown"),  # shown, but within the margin
        ([0.5, -0.4, 0.3, -0.2], "inconclusive"),
        ([0.0, 0.0, 0.0], "no difference shown"),
    ],
)
def test_a_verdict_says_what_the_pairs_show(d: list[float], said: Verdict) -> None:
    assert judged(d) == said


def test_the_direction_of_the_measure_decides_what_better_is() -> None:
    more = of_differences(np.array([0.50, 0.52, 0.48, 0.51]))
    assert verdict(more, p_value(more), MARGIN, "higher") == "better"


def test_simulated_runs_are_exact_and_rounding_is_no_difference() -> None:
    worse = of_differences(np.array([0.001]), exact=True)
    assert verdict(worse, 1.0, MARGIN, "lower") == "worse"
    assert interval(worse) == (0.001, 0.001)
    assert verdict(of_differences(np.array([1e-13]), exact=True), 1.0, MARGIN, "lower") == (
        "no difference shown"
    )


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng, truth = np.random.default_rng(3), 0.08
    trials = rng.normal(truth, 0.05, size=(600, 5))
    ends = [interval(of_differences(d)) for d in trials]
    covered = np.mean([e is not None and e[0] <= truth <= e[1] for e in ends])
    assert 0.92 <= covered <= 0.98  # 600 trials: three standard errors about 0.95


def alarms(trials: int, effect: float, pairs: int, run_sd: float, seed: int) -> float:
    """Share of comparisons of 12 correlated measures in which any is called better or worse."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(trials):
        run = rng.normal(0, run_sd, size=(pairs, 1))
        d = effect + run + rng.normal(0, run_sd, size=(pairs, 12))
        found = [of_differences(d[:, place]) for place in range(12)]
        adjusted = holm([p_value(one) for one in found])
        said = [verdict(one, p, 0.01, "lower") for one, p in zip(found, adjusted, strict=True)]
        hits += any(word in ("better", "worse") for word in said)
    return hits / trials


@pytest.mark.parametrize("pairs", [3, 5, 10])
def test_the_same_server_twice_raises_a_false_alarm_in_at_most_one_comparison_of_twenty(
    pairs: int,
) -> None:
    assert alarms(300, 0.0, pairs, 0.05, seed=pairs) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_a_real_change_is_found() -> None:
    assert alarms(100, math.log(1.2), 5, 0.02, seed=7) >= 0.95


def test_requests_as_the_unit_would_find_changes_between_equal_servers() -> None:
    """Why the run is the unit: 2% of luck per run, 1000 requests, nothing else differs."""
    rng = np.random.default_rng(11)
    trials, by_request, by_run = 60, 0, 0
    for _ in range(trials):
        work = rng.lognormal(0, 1, 1000)
        pairs = [
            [work * np.exp(rng.normal(0, 0.02) + rng.normal(0, 0.05, 1000)) for _ in "ab"]
            for _ in range(5)
        ]
        by_request += stats.wilcoxon(*pairs[0]).pvalue < 0.05
        d = np.array([np.log(b / a).mean() for a, b in pairs])
        by_run += judged(d, 0.001) in ("better", "worse")
    assert by_request / trials > 0.5
    assert by_run / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
