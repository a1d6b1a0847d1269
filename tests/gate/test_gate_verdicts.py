"""From differences of pairs to a verdict, by figures from tables of Student's t."""

from random import Random

import numpy as np
import pytest
from scipy import stats

from loadkit.analysis.comparison.paired import Estimate, of_differences
from loadkit.analysis.gate.verdicts import GateVerdict, gate_verdict, hochberg, loss_p

MARGIN = float(np.log1p(0.10))


def judged(mean: float, sd: float, pairs: int = 5, better: str = "lower") -> GateVerdict:
    found = Estimate(pairs, mean, sd)
    return gate_verdict(found, loss_p(found, better), MARGIN, better)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mean", "sd", "verdict"),
    [
        # t(0.95, 4) = 2.132 and t(0.975, 4) = 2.776; the standard error of 5 pairs is sd / 2.236
        (0.20, 0.02, "REGRESSION"),
        (0.03, 0.02, "SMALL REGRESSION WITHIN"),  # t = 3.4; upper end 0.030 + 0.019 < 0.095
        (0.00, 0.02, "NO REGRESSION BEYOND"),
        (-0.01, 0.02, "NO REGRESSION BEYOND"),  # t = -1.1
        (-0.04, 0.02, "IMPROVEMENT"),  # upper end -0.040 + 0.025 < 0
        (0.05, 0.10, "INCONCLUSIVE"),  # t = 1.1; upper end 0.145 > 0.095
        (0.00, 0.20, "INCONCLUSIVE"),
    ],
)
def test_five_pairs(mean: float, sd: float, verdict: GateVerdict) -> None:
    assert judged(mean, sd) == verdict


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(-0.20, "REGRESSION"), (0.04, "IMPROVEMENT"), (0.0, "NO REGRESSION BEYOND")],
)
def test_less_of_what_should_be_high_is_a_loss(mean: float, verdict: GateVerdict) -> None:
    assert judged(mean, 0.02, better="higher") == verdict


def test_two_pairs_settle_nothing() -> None:
    assert judged(0.5, 0.001, pairs=2) == "INCONCLUSIVE"
    found = Estimate(1, 0.5, None)
    assert gate_verdict(found, loss_p(found, "lower"), MARGIN, "lower") == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [
        (0.0, "NO REGRESSION BEYOND"), (0.05, "SMALL REGRESSION WITHIN"), (0.2, "REGRESSION"),
        (-0.2, "IMPROVEMENT"),
    ],
)  # fmt: skip
def test_simulated_runs_on_identical_arrivals_are_exact(mean: float, verdict: GateVerdict) -> None:
    found = Estimate(1, mean, None, exact=True)
    assert gate_verdict(found, 1.0, MARGIN, "lower") == verdict


def test_the_p_value_of_a_loss_is_that_of_scipys_one_sided_test() -> None:
    rng = Random(3)
    for shift in (-0.02, 0.0, 0.03):
        d = np.array([shift + rng.gauss(0, 0.03) for _ in range(7)])
        expected = stats.ttest_1samp(d, 0.0, alternative="greater").pvalue
        assert loss_p(of_differences(d), "lower") == pytest.approx(expected)
        assert loss_p(of_differences(-d), "higher") == pytest.approx(expected)


def test_hochberg_by_hand() -> None:
    # sorted .01 .02 .04: the largest stands, the middle is min(.04, 2 x .02), the least min(.04, 3 x .01)
    assert hochberg([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert hochberg([]) == []
    assert hochberg([0.03]) == [0.03]
    assert hochberg([0.049, 0.049]) == pytest.approx([0.049, 0.049])
