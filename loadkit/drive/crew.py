"""Greenlets that do one piece of work after another: a fresh one costs a stack of its own each time."""

from collections.abc import Callable
from typing import Any

from gevent.event import Event
from gevent.pool import Group
from gevent.queue import SimpleQueue

Work = tuple[Callable[..., None], tuple[Any, ...]]


class Crew:
    """As many greenlets as there was work at a time."""

    def __init__(self) -> None:
        self._members = Group()
        self._handed: SimpleQueue[Work] = SimpleQueue()
        self._idle = 0
        self._active = 0
        self._quiet = Event()

    def spawn(self, function: Callable[..., None], *args: Any) -> None:
        """Have `function` called soon; it must not raise."""
        self._active += 1
        self._quiet.clear()
        if self._idle:
            self._idle -= 1
            self._handed.put((function, args))
        else:
            self._members.spawn(self._serve, function, args)

    def join(self) -> None:
        """Wait for all work, also for what is added meanwhile, and let the greenlets go."""
        while self._active:
            self._quiet.wait()
        self._members.kill()

    def _serve(self, function: Callable[..., None], args: tuple[Any, ...]) -> None:
        while True:
            try:
                function(*args)
            finally:
                self._active -= 1
                if not self._active:
                    self._quiet.set()
            del function, args  # the idle hold on to nothing
            self._idle += 1
            function, args = self._handed.get()
