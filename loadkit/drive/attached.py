"""A replay under plain `locust`: the command that plans, records and reports runs as our child."""

import logging
import subprocess
import sys
from typing import Any

import gevent
from locust.runners import MasterRunner

from loadkit.drive.conductor import Conductor
from loadkit.drive.link import Link

log = logging.getLogger(__name__)


def attach(environment: Any, user_class: Any) -> None:
    """Start `loadkit replay --attached` and conduct the replay that it plans.

    Call when a test starts and before its users do. Locust ends when the replay has ended.
    """
    host = environment.host or user_class.host
    command = [sys.executable, "-m", "loadkit", "replay", user_class.trace, "--attached"]
    command += ["--target", host or "", *user_class.options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
    assert process.stdin is not None
    assert process.stdout is not None
    runner = environment.runner
    workers = runner.worker_count if isinstance(runner, MasterRunner) else 1

    def _lost() -> None:
        log.error("loadkit replay ended early, see above")
        environment.process_exit_code = process.poll() or 1
        runner.quit()

    link = Link(process.stdout.fileno(), process.stdin.fileno(), on_lost=_lost)
    gevent.spawn(_conduct, environment, Conductor(environment, link, workers), link, process)


def _conduct(environment: Any, conductor: Conductor, link: Link, process: Any) -> None:
    conductor.run()
    link.forget()
    process.stdin.close()
    environment.process_exit_code = process.wait()
    environment.runner.quit()
