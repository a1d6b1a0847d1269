"""The HTTP side: an aiohttp application over one Engine. Serves until it is told to stop."""

import asyncio
import gc
import signal
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from loadkit.clock import WallClock
from loadkit.core import Scheduler
from loadkit.emulator.api import ApiError, error_body
from loadkit.emulator.config import EmulatorConfig
from loadkit.emulator.engine import Engine
from loadkit.emulator.exchange import reset_connection
from loadkit.emulator.faults import FaultPlan
from loadkit.emulator.generate import Generator
from loadkit.emulator.info import InfoRoutes
from loadkit.emulator.ledger import Ledger
from loadkit.errors import InputError

MAX_BODY_BYTES = 64 * 2**20


async def serve(config: EmulatorConfig, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called with the url once requests are answered.

    Raises InputError where the address or the ledger file is not to be had.
    """
    clock = WallClock()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    faults = FaultPlan(config.faults, clock.now_s())
    engine = Engine(lambda: Scheduler(config.policy, config.limits), config.cost, clock, faults)
    ledger = Ledger(config.ledger, {"start_s": faults.origin_s, "model": config.model})
    app = application(config, engine, ledger, faults, clock)
    runner = web.AppRunner(
        app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0, handle_signals=False
    )
    await runner.setup()
    tasks = [
        asyncio.create_task(engine.run()),
        asyncio.create_task(ledger.flush_for_ever()),
        asyncio.create_task(_restarts(engine, ledger, faults, clock)),
    ]
    try:
        ready(await _listen(runner, config))
        gc.freeze()  # what exists now stays: collections need not look at it again
        await _until(stop, tasks[0])
    finally:
        for task in tasks:
            task.cancel()
        engine.end_all()
        await runner.cleanup()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_default_executor()
        ledger.add(_life(engine, clock))
        ledger.close()


def application(
    config: EmulatorConfig, engine: Engine, ledger: Ledger, faults: FaultPlan, clock: WallClock
) -> web.Application:
    app = web.Application(
        client_max_size=MAX_BODY_BYTES, middlewares=[_middleware(config, faults, clock)]
    )
    generator = Generator(config, engine, ledger, faults, clock)
    info = InfoRoutes(config, engine, faults, clock)
    app.add_routes(
        [
            web.post("/v1/completions", generator.completions),
            web.post("/v1/chat/completions", generator.chat),
            web.get("/v1/models", info.models),
            web.get("/health", info.health),
            web.get("/version", info.version),
            web.get("/metrics", info.metrics),
            web.post("/tokenize", info.tokenize),
        ]
    )
    return app


async def _listen(runner: web.AppRunner, config: EmulatorConfig) -> str:
    site = web.TCPSite(runner, config.host, config.port, backlog=4096)
    try:
        await site.start()
    except OSError as error:
        raise InputError(
            f"cannot listen on {config.host}:{config.port} ({error.strerror or error})",
            hint="choose another --port; 0 takes any free one",
        ) from error
    port = runner.addresses[0][1]
    if config.port_file:
        hidden = config.port_file.with_name(f".{config.port_file.name}.tmp")
        hidden.write_text(f"{port}\n", "ascii")
        hidden.replace(config.port_file)
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"http://{host}:{port}"


async def _until(stop: asyncio.Event, engine_task: asyncio.Task[None]) -> None:
    """Wait for the order to stop, or raise what ended the engine."""
    stopped = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({stopped, engine_task}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if engine_task in done:
        engine_task.result()


async def _restarts(engine: Engine, ledger: Ledger, faults: FaultPlan, clock: WallClock) -> None:
    for fault in faults.restarts:
        await clock.sleep_until(faults.origin_s + fault.at_s)
        ledger.add(_life(engine, clock))
        engine.restart()


def _life(engine: Engine, clock: WallClock) -> dict[str, Any]:
    """The ledger's row about the engine itself, one for each of its lives."""
    return {"until_s": clock.now_s(), "clock": engine.metrics.lateness.summary()}


def _middleware(config: EmulatorConfig, faults: FaultPlan, clock: WallClock) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if faults.on("restart", clock.now_s()):
            reset_connection(request.transport)
            raise ConnectionResetError
        if config.api_key and request.path.startswith("/v1") and not _knows(request, config):
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except ApiError as error:
            return api_error_response(error)
        except web.HTTPRequestEntityTooLarge:
            body = error_body(413, "the body is too large", "BadRequestError")
            return web.json_response(body, status=413)
        except web.HTTPException as error:
            return web.json_response({"detail": error.reason}, status=error.status)

    return guard


def _knows(request: web.Request, config: EmulatorConfig) -> bool:
    return request.headers.get("Authorization") == f"Bearer {config.api_key}"


def api_error_response(error: ApiError) -> web.Response:
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return web.json_response(error.body, status=error.status, headers=headers)
