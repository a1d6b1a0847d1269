"""The target's own numbers during a run: `/metrics`, about once a second, on absolute instants.

A failed scrape is a sample too (`scrape_ok` 0), so that a gap is known as a gap. Scrapes never queue
up: a late one makes the next instants pass unused. Reasons are said once, not every second.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

import aiohttp

from loadkit.clock import Clock, WallClock
from loadkit.engines import ENGINES, Exposition, parse_metrics, request_headers
from loadkit.model import MetricSample, ServerMetric, Target
from loadkit.observe import web

_COUNTERS = ("_total", "_sum", "_count")
_TIMEOUT_SHARE = 0.8
"""Of the interval: what has not come by then would only delay the next scrape."""
_HINTS = {
    401: " (the key is missing or wrong)",
    404: " (metrics are not switched on, or at another path)",
    501: " (metrics are not switched on: start llama.cpp with --metrics)",
}

Emit = Callable[[list[MetricSample]], None]
Note = Callable[[float, str], None]
"""Told (seconds from the start of the run, what happened) when the state of a target changes."""


class Scraper:
    """Scrapes one or several `/metrics` of one kind of engine.

    `origin_s` is the start of the run on the monotonic clock. By default the one URL is that of the
    target; keys and extra headers of the target go to no other server.
    """

    def __init__(
        self,
        target: Target,
        engine: str,
        *,
        origin_s: float,
        note: Note,
        urls: Sequence[str] = (),
        interval_s: float = 1.0,
    ) -> None:
        default = target.url + (ENGINES[engine].metrics_path or "/metrics")
        self._target = target
        self._sources = [_Source(url, engine, note) for url in urls or [default]]
        self._origin_s = origin_s
        self._interval_s = interval_s
        self._clock: Clock = WallClock()

    async def run(
        self, stop: asyncio.Event, emit: Emit, environ: Mapping[str, str] = os.environ
    ) -> None:
        """Scrape now, then at every instant, and once more when `stop` is set.

        Raises InputError, before the first scrape, for settings no request can be made with.
        """
        headers = request_headers(self._target, environ)
        async with web.open_session(self._target) as session:
            while True:
                last = stop.is_set()
                found = await asyncio.gather(
                    *(self._scrape(session, source, headers) for source in self._sources)
                )
                emit([sample for samples in found for sample in samples])
                if last:
                    return
                await self._pause(stop)

    async def _scrape(
        self, session: aiohttp.ClientSession, source: "_Source", headers: Mapping[str, str]
    ) -> list[MetricSample]:
        sent = headers if web.same_origin(source.url, self._target.url) else {}
        try:
            answer = await web.get(session, source.url, self._interval_s * _TIMEOUT_SHARE, sent)
        except web.Failure as error:
            return source.failed(self._now_s(), web.reason(error))
        return source.answered(self._now_s(), answer)

    async def _pause(self, stop: asyncio.Event) -> None:
        """Until the next whole multiple of the interval, or until `stop`."""
        wait_s = self._interval_s - self._now_s() % self._interval_s
        if (
            wait_s < self._interval_s * (1 - _TIMEOUT_SHARE) / 2
        ):  # woken early, or late for this one
            wait_s += self._interval_s
        try:
            await asyncio.wait_for(stop.wait(), wait_s)
        except TimeoutError:
            return

    def _now_s(self) -> float:
        return self._clock.now_s() - self._origin_s


class _Source:
    """One `/metrics` and what is known of its state."""

    def __init__(self, url: str, engine: str, note: Note) -> None:
        self.url = url
        self._name = url.removesuffix("/metrics")
        self._engine = engine
        self._note = note
        self._problem: str | None = None
        self._counters: dict[tuple[str, str], float] = {}

    def answered(self, t_s: float, answer: web.Answer) -> list[MetricSample]:
        if answer.status != 200:
            return self.failed(t_s, f"HTTP {answer.status}{_HINTS.get(answer.status, '')}")
        exposition = parse_metrics(self._engine, answer.body.decode("utf-8", "replace"))
        if not exposition.samples:
            return self.failed(t_s, exposition.problem or "no samples")
        self._say(t_s, exposition.problem)
        self._look_for_restart(t_s, exposition)
        samples = [self._sample(t_s, *sample) for sample in exposition.samples]
        return [*samples, self._sample(t_s, ServerMetric.SCRAPE_OK, "{}", 1.0)]

    def failed(self, t_s: float, why: str) -> list[MetricSample]:
        self._say(t_s, why)
        return [self._sample(t_s, ServerMetric.SCRAPE_OK, "{}", 0.0)]

    def _say(self, t_s: float, problem: str | None) -> None:
        if problem == self._problem:
            return
        self._problem = problem
        self._note(t_s, f"{self.url}: {problem or 'scraped again'}")

    def _look_for_restart(self, t_s: float, exposition: Exposition) -> None:
        now = {
            (s.name, s.labels): s.value for s in exposition.samples if s.name.endswith(_COUNTERS)
        }
        fell = [key for key, value in now.items() if value < self._counters.get(key, value)]
        if fell:
            self._note(t_s, f"{self._name}: server restarted at {t_s:.1f} s ({fell[0][0]} fell)")
        self._counters |= now  # a series may vanish in a restart and come back lower

    def _sample(self, t_s: float, name: str, labels: str, value: float) -> MetricSample:
        return MetricSample(t_s, self._name, self._engine, str(name), labels, value)
