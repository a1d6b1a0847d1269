"""A driver process of `loadkit replay`: `local`, or one `master` and several `worker`.

Locust patches the process it is imported into, hence processes of their own. They end when their work
is done, when they are told to, and when the command that started them is gone: its end of stdin closes.
"""

import locust.env  # noqa: F401  isort: skip  (patches the standard library: first of all)

import argparse
import logging
import os
import signal
import sys
from typing import Any

import gevent
from gevent.os import make_nonblocking, nb_read
from locust.env import Environment
from locust.event import EventHook

from loadkit.drive.conductor import Conductor
from loadkit.drive.link import Link, standard_streams
from loadkit.drive.user import ReplayUser

HOST = "127.0.0.1"
WORKERS_JOIN_WITHIN_S = 60.0


class CommandUser(ReplayUser):
    """The replaying user under `loadkit replay`."""


def main() -> None:
    options = _options()
    del sys.argv[1:]  # Locust's web interface reads the command line too
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides what Ctrl-C means
    environment = Environment(user_classes=[CommandUser], stop_timeout=0)
    {"local": _local, "master": _master, "worker": _worker}[options.role](environment, options)


def _local(environment: Environment, options: argparse.Namespace) -> None:
    environment.create_local_runner()
    environment.events.request = EventHook()  # nobody looks at Locust's own statistics here
    _conduct(environment, options, workers=1)


def _master(environment: Environment, options: argparse.Namespace) -> None:
    environment.create_master_runner(HOST, options.port)
    if options.web_port:
        environment.create_web_ui(HOST, options.web_port)
    _conduct(environment, options, workers=options.workers)


def _worker(environment: Environment, options: argparse.Namespace) -> None:
    gevent.spawn(_exit_with_the_command)
    runner = environment.create_worker_runner(HOST, options.port)
    runner.greenlet.join()


def _conduct(environment: Environment, options: argparse.Namespace, workers: int) -> None:
    runner = environment.runner
    assert runner is not None
    # First of all: the command may go, or say stop, while the workers are still starting.
    link = Link(*standard_streams(), on_lost=_exit_at_once)
    conductor = Conductor(environment, link, workers)
    if options.role == "master":
        _await_workers(runner, workers)
    runner.start(user_count=workers, spawn_rate=workers)
    conductor.run()
    runner.quit()


def _await_workers(runner: Any, workers: int) -> None:
    with gevent.Timeout(WORKERS_JOIN_WITHIN_S):
        while len(runner.clients.ready) < workers:
            gevent.sleep(0.05)


def _exit_with_the_command() -> None:
    make_nonblocking(0)
    while nb_read(0, 1 << 10):
        pass
    _exit_at_once()


def _exit_at_once() -> None:
    os._exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="loadkit.drive.child")
    parser.add_argument("role", choices=("local", "master", "worker"))
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--web-port", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
