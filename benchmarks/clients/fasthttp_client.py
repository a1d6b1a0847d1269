"""Locust's FastHttpUser (geventhttpclient) reading lines with `readline`, its fastest way.

No listener hangs on its request event and no JSON is decoded: less than a real locustfile costs.
"""

import locust  # noqa: I001  # patches the process, so it comes first

import time

from common import REQUEST_TIMEOUT_S, Request, arguments, headers, is_token
from gevent_replay import replay
from locust.env import Environment


class Streamer(locust.FastHttpUser):
    concurrency = 4096
    network_timeout = connection_timeout = REQUEST_TIMEOUT_S


def main() -> None:
    plan, out = arguments()
    Streamer.host = plan.url
    client = Streamer(Environment(user_classes=[Streamer])).client

    def stream(request: Request, body: bytes) -> None:
        request.sent_s = time.monotonic()
        response = client.post(
            "/v1/completions", data=body, headers=headers(request.request_id), stream=True
        )
        if response.status_code != 200:
            request.error = f"HTTP {response.status_code}"
            return
        try:
            while line := response.stream.readline(b"\n"):
                if is_token(line):
                    request.chunks_s.append(time.monotonic())
        except OSError as error:
            request.error = repr(error)[:200]

    replay(plan, out, stream)


if __name__ == "__main__":
    main()
