"""A scripted HTTP server on loopback, in the event loop of the test."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    routes: dict[str, Handler], context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """`{"/path": handler}` for any method; everything else is a 404. Yields the base URL."""
    app = web.Application()
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    server = TestServer(app, scheme="https" if context else "http")
    await server.start_server(ssl=context)
    try:
        yield str(server.make_url("/")).rstrip("/")
    finally:
        await server.close()


def answers(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response(document, status=status, headers=headers)

    return handler


def text(body: str, status: int = 200) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status)

    return handler


def events(*documents: object, gap_s: float = 0.0) -> Handler:
    """A server-sent stream; strings are sent as they stand."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for document in documents:
            data = document if isinstance(document, str) else json.dumps(document)
            await response.write(f"data: {data}\n\n".encode())
            await asyncio.sleep(gap_s)
        return response

    return handler


async def hangs(_: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()
