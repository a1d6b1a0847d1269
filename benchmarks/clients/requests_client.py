"""`requests` under gevent's monkey patching, the way of Locust's HttpUser: `stream`, `iter_lines`.

Better than many real uses of it: one session, a pool that never blocks, no proxy look-ups, and no
JSON is decoded.
"""

from gevent import monkey

monkey.patch_all()

import time  # noqa: E402

import requests as http  # noqa: E402
from common import REQUEST_TIMEOUT_S, Request, arguments, headers, is_token  # noqa: E402
from gevent_replay import replay  # noqa: E402


def main() -> None:
    plan, out = arguments()
    session = http.Session()
    session.trust_env = False
    session.mount("http://", http.adapters.HTTPAdapter(pool_connections=4, pool_maxsize=4096))
    url = f"{plan.url}/v1/completions"

    def stream(request: Request, body: bytes) -> None:
        request.sent_s = time.monotonic()
        try:
            with session.post(
                url,
                data=body,
                headers=headers(request.request_id),
                stream=True,
                timeout=REQUEST_TIMEOUT_S,
            ) as response:
                response.raise_for_status()
                for line in response.iter_lines():
                    if is_token(line):
                        request.chunks_s.append(time.monotonic())
        except http.RequestException as error:
            request.error = repr(error)[:200]

    replay(plan, out, stream)


if __name__ == "__main__":
    main()
