"""The two generating routes: check, submit, stream or collect, write the ledger row."""

import asyncio
import math
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

from aiohttp import HttpVersion11, web

from loadkit.clock import Anchor, WallClock
from loadkit.core import Refusal, Sequence
from loadkit.emulator import wire
from loadkit.emulator.api import Api, ApiError, Ask, bounded, error_body, parse
from loadkit.emulator.config import EmulatorConfig
from loadkit.emulator.engine import Engine
from loadkit.emulator.exchange import Exchange, StreamExchange, reset_connection
from loadkit.emulator.faults import Fault, FaultPlan
from loadkit.emulator.ledger import Ledger
from loadkit.emulator.tokens import block_hashes

_BUSY = "The engine is currently busy and cannot accept new requests. Please retry later."
_EXPIRED = "the request's deadline passed before it was started"
_BROKEN = "the engine failed while generating"


@dataclass(slots=True)
class Visit:
    """One HTTP request on its way through; becomes one ledger row."""

    request_id: str
    arrival_s: float
    status: str = "error"
    http_status: int = 200
    exchange: Exchange | None = None


class Generator:
    def __init__(
        self,
        config: EmulatorConfig,
        engine: Engine,
        ledger: Ledger,
        faults: FaultPlan,
        clock: WallClock,
    ) -> None:
        self._config = config
        self._engine = engine
        self._ledger = ledger
        self._faults = faults
        self._clock = clock
        self._numbers = count()

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._visit(request, "completions")

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._visit(request, "chat")

    async def _visit(self, request: web.Request, api: Api) -> web.StreamResponse:
        request_id = bounded(request.headers.get("X-Request-Id", "")) or uuid4().hex
        visit = Visit(request_id, self._clock.now_s())
        try:
            return await self._answer(request, api, visit)
        except ApiError as error:
            visit.http_status = error.status
            raise
        except (asyncio.CancelledError, ConnectionError):
            # The client has gone. aiohttp cancels the handler, or a write finds out first.
            visit.status = "cancelled"
            raise
        finally:
            if visit.exchange:
                self._engine.cancel(visit.exchange.seq)
            self._ledger.add(ledger_row(visit, self._clock.now_s()))

    async def _answer(self, request: web.Request, api: Api, visit: Visit) -> web.StreamResponse:
        config = self._config
        body = await request.read()
        ask = parse(api, body, request.headers, config.model, config.limits.max_model_len)
        make = StreamExchange if ask.stream else Exchange
        exchange = make(ask, self._sequence(ask, visit.request_id), self._clock)
        visit.exchange = exchange
        if fault := self._scripted_refusal():
            visit.status = "rejected"
            raise self._refused_by(fault, exchange)
        if refusal := self._engine.submit(exchange):
            visit.status = "rejected"
            raise self._busy(config.busy_status, refusal)
        keys = wire.envelope(ask, visit.request_id, config.model, int(Anchor.now().unix_s))
        if isinstance(exchange, StreamExchange):
            return await self._stream(request, exchange, visit, keys)
        return await self._whole(request, exchange, visit, keys)

    def _sequence(self, ask: Ask, request_id: str) -> Sequence:
        limits = self._config.limits
        hashes: list[int] = []
        if limits.prefix_cache:
            hashes = block_hashes(ask.prompt, limits.block_tokens, ask.cache_salt)
        deadline_in_s = ask.deadline_in_s
        return Sequence(
            request_id=request_id,
            prompt_tokens=len(ask.prompt.tokens),
            output_tokens=ask.output_tokens,
            max_tokens=ask.max_tokens,
            lane=ask.lane,
            tenant=ask.tenant,
            priority=ask.priority,
            deadline_s=None if deadline_in_s is None else self._clock.now_s() + deadline_in_s,
            block_hashes=hashes,
        )

    async def _stream(
        self, request: web.Request, exchange: StreamExchange, visit: Visit, keys: dict[str, Any]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_headers(visit, "text/event-stream; charset=utf-8"))
        # Nothing is awaited for real between submit and open, so no token can come in between.
        await response.prepare(request)
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        chunked = request.version >= HttpVersion11
        template = wire.chunk_template(exchange.ask, wire.sse_envelope(keys))
        exchange.open(transport, template, chunked=chunked)
        ending = visit.status = await exchange.ending
        if ending == "reset":
            reset_connection(transport)
            return response
        if ending == "truncate":
            response.force_close()
        await response.write_eof(_closing(exchange, keys))
        return response

    async def _whole(
        self, request: web.Request, exchange: Exchange, visit: Visit, keys: dict[str, Any]
    ) -> web.StreamResponse:
        ending = visit.status = await exchange.ending
        if ending in ("reset", "truncate"):
            reset_connection(request.transport)
            raise ConnectionResetError
        if ending == "expired":
            raise ApiError(504, _EXPIRED, "GatewayTimeout")
        if ending == "error":
            raise ApiError(500, _BROKEN, "InternalServerError")
        body = wire.whole_body(exchange.ask, keys, exchange.seq)
        response = web.Response(body=body, headers=_headers(visit, "application/json"))
        await response.prepare(request)
        await response.write_eof()
        return response

    def _scripted_refusal(self) -> Fault | None:
        return self._faults.on("refuse", self._clock.now_s(), next(self._numbers))

    def _refused_by(self, fault: Fault, exchange: Exchange) -> ApiError:
        """A client cannot tell it from a refusal of the engine, so the engine's counters own up to it."""
        left_s = self._faults.origin_s + fault.end_s - self._clock.now_s()
        refusal = Refusal("scripted", min(left_s, 3600.0))
        self._engine.refuse(exchange.seq, refusal)
        return self._busy(fault.http_status, refusal)

    def _busy(self, status: int, refusal: Refusal) -> ApiError:
        kind = "Too Many Requests" if status == 429 else "Service Unavailable"
        wait_s = max(1, math.ceil(refusal.retry_after_s or 1.0))
        return ApiError(status, _BUSY, kind, retry_after_s=wait_s)


def _headers(visit: Visit, content_type: str) -> dict[str, str]:
    # Only an id that can be a header line is sent back as one.
    safe = visit.request_id.isascii() and visit.request_id.isprintable()
    return {"Content-Type": content_type, **({"X-Request-Id": visit.request_id} if safe else {})}


def _closing(exchange: Exchange, keys: dict[str, Any]) -> bytes:
    """What follows the last token of a stream."""
    ending = exchange.ending.result()
    if ending == "truncate":
        return b""
    if ending == "error":
        return wire.sse(error_body(500, _BROKEN, "InternalServerError")) + wire.DONE
    if ending == "expired":
        return wire.sse(error_body(504, _EXPIRED, "GatewayTimeout")) + wire.DONE
    usage = wire.usage_event(keys, exchange.seq) if exchange.ask.include_usage else b""
    return usage + wire.DONE


def ledger_row(visit: Visit, finish_s: float) -> dict[str, Any]:
    """Instants in seconds on the monotonic clock; null where it never came to that."""
    row: dict[str, Any] = {
        "request_id": visit.request_id,
        "status": visit.status,
        "http_status": visit.http_status,
        "arrival_s": visit.arrival_s,
        "finish_s": finish_s,
    }
    if visit.exchange is None:
        return row
    ask, seq = visit.exchange.ask, visit.exchange.seq
    return row | {
        "api": ask.api,
        "stream": ask.stream,
        "lane": seq.lane,
        "tenant": seq.tenant,
        "priority": seq.priority,
        "deadline_s": seq.deadline_s,
        "queued_s": seq.arrival_s,
        "first_scheduled_s": seq.first_scheduled_s,
        "first_token_s": seq.first_token_s,
        "token_s": visit.exchange.token_s,
        "prompt_tokens": seq.prompt_tokens,
        "output_tokens": seq.generated_tokens,
        "max_tokens": seq.max_tokens,
        "cached_tokens": seq.cached_tokens,
        "refusal": seq.refusal,
        "preemptions": seq.preemptions,
        "recomputed_tokens": seq.recomputed_tokens,
        "time_preempted_s": seq.time_preempted_s,
    }
