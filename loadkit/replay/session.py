"""One replay from start to end: the driver sends, the scraper looks, the recorder writes."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from loadkit.drive.launch import Driver, attached, last_words, launched
from loadkit.engines import ENGINES
from loadkit.errors import LoadkitError, RunError, TargetError
from loadkit.observe.alive import why_silent
from loadkit.observe.scrape import Scraper
from loadkit.records import STOPPED_EARLY, Manifest, RunDir
from loadkit.replay.hopeless import Misses
from loadkit.replay.options import ReplayOptions
from loadkit.replay.prepare import Prepared
from loadkit.replay.progress import Progress
from loadkit.replay.recorder import CLOSE_PART_EVERY_S, Recorder


@dataclass(frozen=True, slots=True)
class Ending:
    state: Literal["finished", "stopped", "failed"]
    why: str
    at_s: float
    error: LoadkitError | None = None
    """To be shown when everything else is in place: the disk refused, the target is gone."""


class Session:
    """The running part of a replay. Use once."""

    def __init__(
        self, options: ReplayOptions, prepared: Prepared, run: RunDir, recorder: Recorder
    ) -> None:
        self._options = options
        self._prepared = prepared
        self._run = run
        self._recorder = recorder
        self._progress = Progress(recorder, prepared.schedule.duration_s)
        self._misses = Misses(options.stop_rule) if options.stop_rule else None
        self._ending: Ending | None = None
        self._scrape_end = asyncio.Event()
        self.manifest: Manifest = prepared.manifest

    async def run(self) -> Ending:
        """Returns when everything offered has ended, was stopped, or cannot go on."""
        async with self._driver() as driver, asyncio.TaskGroup() as tasks:
            with self._stopping_on_signals(driver):
                await driver.send_plan(self._prepared.plan)
                ticker = tasks.create_task(self._tick(driver))
                await self._listen(driver, tasks)
                ticker.cancel()
                self._scrape_end.set()
        self._progress.end()
        return await self._judged()

    @contextlib.asynccontextmanager
    async def _driver(self) -> AsyncIterator[Driver]:
        if self._options.attached:
            yield await attached()
        else:
            options = self._options
            async with launched(options.workers, options.web_port, self._run.work_dir) as driver:
                yield driver

    async def _listen(self, driver: Driver, tasks: asyncio.TaskGroup) -> None:
        async for frame in driver.frames():
            if frame["type"] == "start":
                self._start(frame, tasks)
            elif frame["type"] == "end":
                self._end("finished", "every request has ended")
                return
            else:
                self._recorder.take(frame)
                if self._misses and frame["type"] == "rows":
                    self._misses.take(frame["rows"])
                if frame.get("fatal"):
                    self._end("failed", frame["what"])
        words = last_words(self._run.work_dir)
        self._end("failed", "the driver process ended early" + (f" ({words})" if words else ""))

    def _start(self, frame: dict[str, Any], tasks: asyncio.TaskGroup) -> None:
        self._recorder.started(frame["monotonic_s"])
        anchor = {"monotonic_s": frame["monotonic_s"], "unix_s": frame["unix_s"]}
        self.manifest = replace(self.manifest, anchor=anchor, workers=frame["workers"])
        self.manifest.write(self._run.manifest_path)
        if self._scrapes():
            tasks.create_task(self._scrape(frame["monotonic_s"]))

    async def _scrape(self, origin_s: float) -> None:
        plan = self._prepared.plan
        scraper = Scraper(
            plan.target,
            plan.engine,
            urls=self._options.metrics_urls,
            origin_s=origin_s,
            note=self._note,
        )
        await scraper.run(self._scrape_end, self._recorder.take_samples)

    def _note(self, t_s: float, what: str) -> None:
        self._recorder.note(what, t_s)
        self._progress.say(f"{t_s:8.1f} s  {what}")

    def _scrapes(self) -> bool:
        known = ENGINES[self._prepared.plan.engine].metrics_path is not None
        return self._options.scrape and (known or bool(self._options.metrics_urls))

    async def _tick(self, driver: Driver) -> None:
        while True:
            await asyncio.sleep(CLOSE_PART_EVERY_S)
            self._progress.show()
            try:
                self._recorder.close_parts()
            except RunError as error:
                self._end("failed", error.message, error)
                await driver.stop()
                return
            if self._misses and (why := self._misses.why_stop):
                self._end("stopped", f"{STOPPED_EARLY}: {why}")
                await driver.stop()
                return

    @contextlib.contextmanager
    def _stopping_on_signals(self, driver: Driver) -> Iterator[None]:
        """The first Ctrl-C stops the replay and keeps everything; the second one gives up waiting."""
        loop = asyncio.get_running_loop()
        stops: set[asyncio.Task[None]] = set()

        def _stop() -> None:
            if stops:
                raise KeyboardInterrupt
            self._end("stopped", "stopped by the user")
            self._progress.say("stopping: writing down what there is (once more to give up)")
            stops.add(asyncio.ensure_future(driver.stop()))

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _end(
        self,
        state: Literal["finished", "stopped", "failed"],
        why: str,
        error: LoadkitError | None = None,
    ) -> None:
        """The first reason is the reason."""
        if self._ending is None:
            self._ending = Ending(state, why, max(0.0, self._recorder.elapsed_s), error)

    async def _judged(self) -> Ending:
        """The ending, with the question whether the target has survived the run."""
        assert self._ending is not None
        plan = self._prepared.plan
        silent = await why_silent(plan.target, plan.engine)
        if silent is None or self._ending.error is not None:
            return self._ending
        what = f"{plan.target.url} does not answer any more ({silent})"
        self._recorder.note(what)
        hint = f"what it did before is in {self._run.path}; look at the log of the server"
        return replace(self._ending, error=TargetError(what, hint=hint))
