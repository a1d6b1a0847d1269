"""Which step comes next, from what was measured alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knee_steps import SLO, step
from loadkit.analysis.knee.steps import Step, StepPlan
from loadkit.knee.search import (
    DOWNWARD_STEPS,
    SATURATION_TRIES,
    UPWARD_STEPS,
    Search,
    missed_when_over,
    next_step,
)

SEARCH = Search(SLO, start_rps=5.0, samples=6)
MOST_STEPS = UPWARD_STEPS + DOWNWARD_STEPS + 4 + SATURATION_TRIES + SEARCH.samples + 2


def served(plan: StepPlan, capacity_rps: float, *, valid: bool = True) -> Step:
    """A server that misses nothing up to its capacity, then ever more; overloaded from 1.2 times it."""
    beyond = plan.rate_rps / capacity_rps
    share = min(1.0, 0.01 * min(beyond, 2.0) ** 30)
    made = step(plan.rate_rps, round(1000 * share), valid=valid, overloaded=beyond > 1.2)
    full_rps = 1.2 * capacity_rps
    done_rps = min(plan.rate_rps, full_rps)
    return replace(
        made,
        plan=plan,
        completed_rps=done_rps,
        stability="unstable" if beyond > 1.2 else "stable",
    )


def searched(search: Search, capacity_rps: float) -> list[Step]:
    done: list[Step] = []
    while (plan := next_step(search, done)) is not None:
        done.append(served(plan, capacity_rps))
        assert len(done) <= MOST_STEPS
    return done


def roles(done: list[Step]) -> list[str]:
    return [each.plan.role for each in done]


def test_bracket_baseline_saturation_samples_in_this_order() -> None:
    done = searched(SEARCH, 12.0)
    order = list(dict.fromkeys(roles(done)))
    assert order == ["bracket", "baseline", "saturation", "sample"]
    assert roles(done).count("sample") == 6
    assert sum(each.overloaded for each in done) >= 3


def test_samples_lie_close_to_the_capacity_or_where_latency_turns_up() -> None:
    rates = [s.plan.rate_rps for s in searched(SEARCH, 12.0) if s.plan.role == "sample"]
    assert all(10.5 < rate < 13.5 for rate in rates)


def test_a_start_that_is_over_already_is_searched_downwards() -> None:
    done = searched(SEARCH, 1.0)
    assert done[1].plan.rate_rps < done[0].plan.rate_rps
    assert roles(done).count("sample") == 6


def test_what_never_misses_spends_no_samples() -> None:
    done = searched(SEARCH, 1e12)
    assert roles(done) == ["bracket"] * UPWARD_STEPS


def test_what_always_misses_spends_no_samples() -> None:
    done = searched(SEARCH, 1e-12)
    assert set(roles(done)) == {"bracket"}
    assert len(done) == DOWNWARD_STEPS + 1


def test_an_invalid_step_is_planned_again_and_steers_nothing() -> None:
    first = next_step(SEARCH, [])
    assert first is not None
    failed = served(first, 1e-12, valid=False)
    assert next_step(SEARCH, [failed]) == first


def test_a_ladder_is_climbed_as_asked_then_confirmed() -> None:
    ladder = Search(SLO, 1.0, rates_rps=(5.0, 10.0, 12.0, 15.0), soak_s=300.0)
    done = searched(ladder, 12.0)
    assert [s.plan.rate_rps for s in done[:4]] == [5.0, 10.0, 12.0, 15.0]
    assert roles(done) == ["ladder"] * 4 + ["soak"]
    assert done[-1].plan.measure_s == 300.0
    assert 5.0 < done[-1].plan.rate_rps < 12.0


def test_a_soak_comes_last_at_the_lower_bound() -> None:
    done = searched(Search(SLO, 5.0, samples=6, soak_s=600.0), 12.0)
    assert roles(done).count("soak") == 1
    assert roles(done)[-1] == "soak"
    assert 10.0 < done[-1].plan.rate_rps < 12.0


def test_enough_leaves_only_the_confirmation() -> None:
    soaking = Search(SLO, 5.0, soak_s=600.0)
    done = searched(Search(SLO, 5.0, samples=3), 12.0)
    plan = next_step(soaking, done, enough=True)
    assert plan is not None and plan.role == "soak"
    assert next_step(SEARCH, done, enough=True) is None


@pytest.mark.parametrize(("requests", "fewest"), [(1000, 31), (100, 4), (33, 1), (10, 1)])
def test_three_times_the_allowed_share_is_not_over_and_one_more_is(
    requests: int, fewest: int
) -> None:
    assert missed_when_over(SEARCH, requests) == fewest


@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.booleans(), st.booleans()),
        min_size=MOST_STEPS,
        max_size=MOST_STEPS,
    )
)
def test_every_search_ends_whatever_its_steps_say(told: list[tuple[int, bool, bool]]) -> None:
    done: list[Step] = []
    for missed, overloaded, unstable in told:
        plan = next_step(SEARCH, done)
        if plan is None:
            return
        assert 0 < plan.rate_rps < float("inf")
        state = "unstable" if unstable else "stable"
        made = step(plan.rate_rps, missed, overloaded=overloaded, stability=state)
        done.append(replace(made, plan=plan))
    assert next_step(SEARCH, done) is None
