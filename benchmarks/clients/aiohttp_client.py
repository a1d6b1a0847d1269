"""aiohttp with a JSON decode for each chunk, the way of most asyncio load generators."""

import asyncio
import json
import time

import aiohttp
from common import (
    REQUEST_TIMEOUT_S,
    START_DELAY_S,
    Meter,
    Request,
    arguments,
    headers,
    write_result,
)


async def stream(session: aiohttp.ClientSession, url: str, request: Request, body: bytes) -> None:
    request.sent_s = time.monotonic()
    try:
        async with session.post(url, data=body, headers=headers(request.request_id)) as response:
            response.raise_for_status()
            async for line in response.content:
                now_s = time.monotonic()
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                choices = json.loads(line[6:])["choices"]
                if choices and choices[0]["text"]:
                    request.chunks_s.append(now_s)
    except (aiohttp.ClientError, TimeoutError) as error:
        request.error = repr(error)[:200]


async def main() -> None:
    plan, out = arguments()
    body, meter = plan.body(), Meter()
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        origin_s = time.monotonic() + START_DELAY_S
        requests = [Request(name, origin_s + offset_s) for name, offset_s in plan.requests]
        tasks = []
        for i, request in enumerate(requests):
            if i == plan.warmup_count:
                meter.mark()
            await asyncio.sleep(max(0.0, request.scheduled_s - time.monotonic()))
            url = f"{plan.url}/v1/completions"
            tasks.append(asyncio.create_task(stream(session, url, request, body)))
        await asyncio.gather(*tasks)
        meter.stop()
    write_result(out, requests, meter)


if __name__ == "__main__":
    asyncio.run(main())
