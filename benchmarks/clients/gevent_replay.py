"""The open loop of the two gevent clients: a greenlet for each request at its absolute instant."""

import time
from collections.abc import Callable
from pathlib import Path

import gevent
from common import REQUEST_TIMEOUT_S, START_DELAY_S, Meter, Plan, Request, write_result


def replay(plan: Plan, out: Path, stream: Callable[[Request, bytes], None]) -> None:
    """`stream` sends one request with this body and stamps its tokens."""
    body, meter = plan.body(), Meter()
    origin_s = time.monotonic() + START_DELAY_S
    requests = [Request(name, origin_s + offset_s) for name, offset_s in plan.requests]
    greenlets = []
    for i, request in enumerate(requests):
        if i == plan.warmup_count:
            meter.mark()
        wait_s = request.scheduled_s - time.monotonic()
        # Even when late the hub must run, or the requests in flight would starve.
        gevent.sleep(max(0.0, wait_s))
        greenlets.append(gevent.spawn(stream, request, body))
    gevent.joinall(greenlets, timeout=REQUEST_TIMEOUT_S)
    meter.stop()
    write_result(out, requests, meter)
