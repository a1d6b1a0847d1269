"""Before a run: what server is this, which model, and does it answer as it is going to be asked?

`identify` asks only what costs the server nothing. `probe` makes one small generation. Every failure
that a user can act on is an error with its remedy; what stays unknown has a reason.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import aiohttp
import orjson

from loadkit.clock import WallClock
from loadkit.engines import (
    ENGINES,
    Reply,
    StreamReader,
    absent,
    detect_engine,
    model_cards,
    outcome,
    parse_metrics,
    read_body,
    request_headers,
    request_path,
    secrets,
    without_secrets,
)
from loadkit.errors import InputError, TargetError
from loadkit.model import ServerMetric, Target
from loadkit.observe import refusals, web
from loadkit.observe.facts import Facts, engine_facts

ASK_TIMEOUT_S = 5.0
PROBE_TIMEOUT_S = 60.0
_ANY_MODEL = ("transformers",)
"""Loads whatever model it is asked for: its list is what it has loaded so far."""


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """What a target told about itself."""

    engine: str
    version: str | None
    models: tuple[str, ...]
    model: str
    max_model_len: int | None
    capacity: Mapping[str, float]
    """`max_num_seqs`, `max_num_batched_tokens`, `kv_blocks`, `kv_block_tokens`, as far as known."""
    metrics: tuple[str, ...]
    """Canonical names that it exposes now."""
    policy: str | None = None
    """How it schedules, in its own words, as far as it tells."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """What is not known, and why: metrics, `version`, `max_model_len`, `max_num_seqs` …"""


class ProbeResult(NamedTuple):
    http_status: int
    streamed: bool
    reply: Reply
    """Its stamps count from the sending of the probe."""
    duration_s: float
    headers: Mapping[str, str]


async def identify(target: Target, environ: Mapping[str, str] = os.environ) -> TargetInfo:
    """Raises TargetError when it cannot be talked to, InputError for a wrong key, model or engine."""
    if target.engine is not None and target.engine not in ENGINES:
        raise InputError(
            f"unknown engine {target.engine!r}", hint=f"one of {', '.join(sorted(ENGINES))}"
        )
    async with web.open_session(target) as session:
        asker = _Asker(session, target, request_headers(target, environ))
        models = await asker.models()
        metrics = await asker.text("/metrics")
        engine = target.engine or await asker.engine(models, metrics)
        facts = await engine_facts(engine, asker.json)
    cards = model_cards(models)
    model = _chosen(target, engine, [card["id"] for card in cards])
    return _info(engine, model, cards, facts, metrics, asker.reasons)


async def probe(
    target: Target,
    body: bytes,
    *,
    models: tuple[str, ...] = (),
    environ: Mapping[str, str] = os.environ,
    timeout_s: float = PROBE_TIMEOUT_S,
) -> ProbeResult:
    """POST `body` to the target's API and read the whole answer.

    Raises TargetError when the server cannot or will not answer, InputError when it was asked
    wrongly: key, API, model, or a stream that it does not give. `models` are named in that case.
    """
    url = target.url + request_path(target.api)
    try:
        async with asyncio.timeout(timeout_s), web.open_session(target) as session:
            result = await _post(session, target, url, body, request_headers(target, environ))
    except web.Failure as error:
        raise web.unreachable(url, error) from error
    _check(target, url, _without_secrets(result, secrets(target, environ)), models)
    return result


async def _post(
    session: aiohttp.ClientSession,
    target: Target,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
) -> ProbeResult:
    clock = WallClock()
    sent_s = clock.now_s()
    async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
        streamed = response.content_type == "text/event-stream"
        if streamed:
            reader = StreamReader(target.api)
            async for data in response.content.iter_any():
                reader.feed(clock.now_s() - sent_s, data)
            reply = reader.finish()
        else:
            reply = read_body(target.api, await web.read_bounded(response))
        lower = {name.lower(): value for name, value in response.headers.items()}
        return ProbeResult(response.status, streamed, reply, clock.now_s() - sent_s, lower)


def _without_secrets(result: ProbeResult, found: tuple[str, ...]) -> ProbeResult:
    """Servers quote the key that they refuse: it must not reach the terminal."""
    error = result.reply.error
    if error is None:
        return result
    safe = error._replace(message=without_secrets(error.message, found))
    return result._replace(reply=replace(result.reply, error=safe))


def _check(target: Target, url: str, result: ProbeResult, models: tuple[str, ...]) -> None:
    said = result.reply.error.message if result.reply.error else ""
    if failure := refusals.wrongly_asked(target, url, result.http_status, said, models):
        raise failure
    judged = outcome(result.http_status, result.reply, result.headers)
    if target.stream and not result.streamed and judged.status == "ok":
        raise InputError(
            f"{url}: answered in one piece although a stream was asked for",
            hint="does a proxy buffer it? measure without token times: --no-stream",
        )
    if judged.status != "ok":
        raise TargetError(
            f"{url}: the test request ended as {judged.status} ({judged.error})",
            hint=_busy_hint(judged.status),
        )


def _busy_hint(status: str) -> str:
    if status in ("rejected", "expired"):
        return "it is refusing requests already: is other load on it?"
    return "look at the log of the server"


def _chosen(target: Target, engine: str, served: list[str]) -> str:
    """Raises InputError when the model is not served, or is not told and not the only one."""
    models = tuple(served)
    if target.model is None:
        if len(models) == 1:
            return models[0]
        problem = "serves several models" if models else "does not tell which models it serves"
        raise InputError(
            f"{target.url}: {problem}", hint=f"choose with --model; {refusals.served(models)}"
        )
    if models and target.model not in models and engine not in _ANY_MODEL:
        raise InputError(f"{target.url}: no model {target.model!r}", hint=refusals.served(models))
    return target.model


def _info(
    engine: str,
    model: str,
    cards: list[Mapping[str, Any]],
    facts: Facts,
    metrics: str | None,
    reasons: Mapping[str, str],
) -> TargetInfo:
    samples = parse_metrics(engine, metrics or "").samples
    present = {sample.name for sample in samples}
    why_no_metrics = reasons.get("/metrics")
    unknown = {name: why_no_metrics or why for name, why in absent(engine, present).items()}
    capacity = {**_capacity(samples), **facts.capacity}
    card = next((card for card in cards if card["id"] == model), {})
    longest = facts.max_model_len or card.get("max_model_len")
    if "max_num_seqs" in capacity:
        unknown.pop("max_num_seqs", None)
    if facts.version is None:
        unknown["version"] = f"{engine} did not tell"
    if not isinstance(longest, int):
        longest, unknown["max_model_len"] = None, f"{engine} did not tell"
    return TargetInfo(
        engine=engine,
        version=facts.version,
        models=tuple(card["id"] for card in cards),
        model=model,
        max_model_len=longest,
        capacity=capacity,
        metrics=tuple(sorted(present)),
        policy=facts.policy,
        unknown=unknown,
    )


def _capacity(samples: list[Any]) -> dict[str, float]:
    """Slots and blocks add up over data-parallel engines; the sizes of a block and a step do not."""
    capacity: dict[str, float] = {}
    for sample in samples:
        if sample.name in (ServerMetric.MAX_NUM_SEQS, ServerMetric.KV_BLOCKS):
            capacity[sample.name] = capacity.get(sample.name, 0.0) + sample.value
        elif sample.name in (ServerMetric.KV_BLOCK_TOKENS, ServerMetric.MAX_NUM_BATCHED_TOKENS):
            capacity[sample.name] = sample.value
    return capacity


class _Asker:
    """GETs to one target, with the reason for every one that did not work."""

    def __init__(
        self, session: aiohttp.ClientSession, target: Target, headers: Mapping[str, str]
    ) -> None:
        self._session = session
        self._target = target
        self._headers = headers
        self._server: str | None = None
        self.reasons: dict[str, str] = {}

    async def models(self) -> object:
        """The JSON of `/v1/models`, None where there is none. The first word with the target."""
        url = f"{self._target.url}/v1/models"
        try:
            answer = await web.get(self._session, url, ASK_TIMEOUT_S, self._headers)
        except web.Failure as error:
            raise web.unreachable(self._target.url, error) from error
        self._server = answer.headers.get("Server")
        if answer.status in (401, 403):
            raise refusals.refused_key(self._target, f"{url}: HTTP {answer.status}")
        return self._loaded("/v1/models", answer)

    async def text(self, path: str) -> str | None:
        answer = await self._get(path)
        return answer.body.decode("utf-8", "replace") if answer else None

    async def json(self, path: str) -> object:
        answer = await self._get(path)
        return self._loaded(path, answer) if answer else None

    async def engine(self, models: object, metrics: str | None) -> str:
        told = detect_engine(models=models, metrics=metrics, server=self._server)
        return told or detect_engine(openapi=await self.json("/openapi.json")) or "openai"

    async def _get(self, path: str) -> web.Answer | None:
        url = self._target.url + path
        try:
            answer = await web.get(self._session, url, ASK_TIMEOUT_S, self._headers)
        except web.Failure as error:
            self.reasons[path] = f"{path}: {web.reason(error)}"
            return None
        if answer.status != 200:
            self.reasons[path] = f"{path}: HTTP {answer.status}"
            return None
        return answer

    def _loaded(self, path: str, answer: web.Answer) -> object:
        try:
            return orjson.loads(answer.body) if answer.status == 200 else None
        except orjson.JSONDecodeError:
            self.reasons[path] = f"{path}: not JSON"
            return None
