"""A target's numbers once a second, and the truth about the seconds without."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from aiohttp import web as aio
from observe_server import Handler, hangs, serving, text

from loadkit.clock import WallClock
from loadkit.model import MetricSample, Target
from loadkit.observe.scrape import Scraper

INTERVAL_S = 0.1


@dataclass
class Seen:
    batches: list[list[MetricSample]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def values(self, name: str) -> list[float]:
        return [s.value for batch in self.batches for s in batch if s.name == name]


def scraped(
    handler: Handler,
    *,
    until: int = 3,
    engine: str = "vllm",
    target: Target | None = None,
    paths: Sequence[str] = (),
) -> Seen:
    """Serve `handler` at /metrics (and the other paths) and scrape it `until` so often, and once more."""
    seen = Seen()

    async def main() -> None:
        stop = asyncio.Event()

        def emit(batch: list[MetricSample]) -> None:
            seen.batches.append(batch)
            if len(seen.batches) == until:
                stop.set()

        async with serving(dict.fromkeys(("/metrics", *paths), handler)) as url:
            scraper = Scraper(
                target or Target(url, api_key_env="KEY"),
                engine,
                origin_s=WallClock().now_s(),
                note=lambda _, what: seen.notes.append(what.replace(url, "URL")),
                urls=[url + path for path in paths],
                interval_s=INTERVAL_S,
            )
            await asyncio.wait_for(scraper.run(stop, emit, {"KEY": "k"}), 10)

    asyncio.run(main())
    return seen


def in_turn(*answers: str | int | None) -> Handler:
    """One answer after the other, the last for ever; a number is a status, None a broken connection."""
    left: Iterator[str | int | None] = iter(answers)
    last: str | int | None = None

    async def handler(request: aio.Request) -> aio.Response:
        nonlocal last
        last = next(left, last)
        if last is None:
            assert request.transport is not None
            request.transport.close()
        if isinstance(last, int):
            return aio.Response(status=last)
        return aio.Response(text=last or "")

    return handler


def preemptions(count: int) -> str:
    return f'vllm:num_preemptions_total{{engine="0"}} {count}\n'


def test_samples_come_at_once_then_on_absolute_instants_and_once_more_at_the_end() -> None:
    seen = scraped(text(preemptions(3)))
    assert seen.notes == []
    assert len(seen.batches) == 4
    first, *between, last = seen.batches
    assert {s.name for s in first} == {"preemptions_total", "scrape_ok"}
    assert (first[0].engine, first[0].labels) == ("vllm", '{"engine":"0"}')
    for batch in between:  # behind a whole multiple, never before it
        assert first[0].t_s < batch[0].t_s
        assert batch[0].t_s >= INTERVAL_S * 0.99
    assert last[0].t_s - between[-1][0].t_s < INTERVAL_S
    assert set(seen.values("scrape_ok")) == {1.0}


def test_a_failed_scrape_is_a_known_gap_whose_reason_is_said_once() -> None:
    seen = scraped(in_turn(preemptions(1), 500, 500, preemptions(1)))
    assert seen.values("scrape_ok") == [1.0, 0.0, 0.0, 1.0]
    assert seen.notes == ["URL/metrics: HTTP 500", "URL/metrics: scraped again"]


@pytest.mark.parametrize(
    ("handler", "engine", "said"),
    [
        (in_turn(404), "vllm", "metrics are not switched on"),
        (in_turn(501), "llamacpp", "start llama.cpp with --metrics"),
        (in_turn(401), "vllm", "the key is missing or wrong"),
        (in_turn(None), "vllm", "closed the connection"),
        (hangs, "vllm", "no answer in time"),
        (text("<html>hello</html>"), "vllm", "none of vllm's metrics"),
        (text(""), "sglang", "none of sglang's metrics"),
    ],
)
def test_what_cannot_be_scraped_is_said_once_and_never_zero(
    handler: Handler, engine: str, said: str
) -> None:
    seen = scraped(handler, engine=engine)
    assert set(seen.values("scrape_ok")) == {0.0}
    assert {s.name for batch in seen.batches for s in batch} == {"scrape_ok"}
    assert len(seen.notes) == 1
    assert said in seen.notes[0]


def test_scrapes_of_a_slow_target_never_overlap_or_queue_up() -> None:
    at_once = most = 0

    async def handler(_: aio.Request) -> aio.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            await asyncio.sleep(INTERVAL_S * 0.7)
        finally:
            at_once -= 1
        return aio.Response(text=preemptions(1))

    seen = scraped(handler, until=5)
    assert most == 1
    starts = [batch[0].t_s for batch in seen.batches[:-1]]
    assert all(b - a >= INTERVAL_S * 0.7 for a, b in pairwise(starts))


def test_a_counter_that_falls_is_a_restart() -> None:
    seen = scraped(in_turn(preemptions(5), preemptions(7), preemptions(2), preemptions(3)))
    (note,) = seen.notes
    assert "server restarted at" in note
    assert "preemptions_total" in note
    assert seen.values("preemptions_total") == [5.0, 7.0, 2.0, 3.0]


def test_a_gauge_that_falls_is_none() -> None:
    running = "vllm:num_requests_running {}\n"
    assert scraped(in_turn(running.format(5), running.format(0))).notes == []


def test_a_restart_behind_a_gap_is_still_seen() -> None:
    seen = scraped(in_turn(preemptions(5), 503, preemptions(1)))
    assert any("server restarted" in note for note in seen.notes)


def test_a_counter_that_vanished_and_came_back_lower_is_a_restart() -> None:
    other = "vllm:prompt_tokens_total 9\n"
    seen = scraped(in_turn(preemptions(5) + other, other, preemptions(1) + other))
    assert len(seen.notes) == 1
    assert "preemptions_total fell" in seen.notes[0]


def test_several_servers_are_told_apart() -> None:
    seen = scraped(text(preemptions(1)), paths=("/a/metrics", "/b/metrics"))
    targets = {s.target.rpartition("/")[2] for s in seen.batches[0]}
    assert targets == {"a", "b"}


def test_the_key_goes_to_the_target_and_to_nobody_else() -> None:
    keys: list[str | None] = []

    async def handler(request: aio.Request) -> aio.Response:
        keys.append(request.headers.get("Authorization"))
        return aio.Response(text=preemptions(1))

    scraped(handler)
    assert set(keys) == {"Bearer k"}
    keys.clear()
    elsewhere = Target("http://127.0.0.1:1", api_key_env="KEY")
    scraped(handler, target=elsewhere, paths=("/a/metrics",))
    assert set(keys) == {None}
