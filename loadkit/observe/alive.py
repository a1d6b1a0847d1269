"""Does the target still answer?"""

import os
from collections.abc import Mapping

from loadkit.engines import ENGINES, request_headers
from loadkit.model import Target
from loadkit.observe import web

ANSWERS_WITHIN_S = 5.0


async def why_silent(
    target: Target, engine: str, environ: Mapping[str, str] = os.environ
) -> str | None:
    """None when the target answers on a path that generates nothing; otherwise why it does not."""
    url = target.url + ENGINES[engine].health_path
    try:
        async with web.open_session(target) as session:
            headers = request_headers(target, environ)
            answer = await web.get(session, url, ANSWERS_WITHIN_S, headers)
    except web.Failure as error:
        return web.reason(error)
    return f"HTTP {answer.status}" if answer.status >= 500 else None
