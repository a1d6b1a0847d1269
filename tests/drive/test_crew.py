"""Greenlets are reused, and all work is waited for."""

import gevent
import pytest

from loadkit.drive.crew import Crew


@pytest.fixture
def crew() -> Crew:
    return Crew()


def test_work_that_follows_work_is_done_by_the_same_greenlet(crew: Crew) -> None:
    seen: list[gevent.Greenlet] = []
    for _ in range(3):
        crew.spawn(lambda: seen.append(gevent.getcurrent()))
        gevent.sleep(0.001)

    crew.join()

    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_work_at_the_same_time_runs_at_the_same_time(crew: Crew) -> None:
    met = gevent.event.Event()
    done: list[str] = []

    def waiter() -> None:
        met.wait()
        done.append("waiter")

    crew.spawn(waiter)
    crew.spawn(met.set)
    crew.join()

    assert done == ["waiter"]


def test_join_waits_for_work_that_work_adds(crew: Crew) -> None:
    done: list[int] = []

    def step(left: int) -> None:
        gevent.sleep(0.001)
        done.append(left)
        if left:
            crew.spawn(step, left - 1)

    crew.spawn(step, 3)
    crew.join()

    assert done == [3, 2, 1, 0]


def test_a_crew_without_work_is_joined_at_once(crew: Crew) -> None:
    joined = gevent.spawn(crew.join)
    joined.join(timeout=1.0)

    assert joined.successful()


def test_after_join_no_greenlet_is_left(crew: Crew) -> None:
    seen: list[gevent.Greenlet] = []
    crew.spawn(lambda: seen.append(gevent.getcurrent()))

    crew.join()

    assert [one.dead for one in seen] == [True]
