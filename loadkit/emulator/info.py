"""Routes that tell about the server: models, health, version, metrics, tokenizer."""

from aiohttp import web

from loadkit import __version__
from loadkit.clock import Clock
from loadkit.emulator import tokens
from loadkit.emulator.api import parse_object, prompt_of
from loadkit.emulator.config import EmulatorConfig
from loadkit.emulator.engine import Engine
from loadkit.emulator.exposition import CONTENT_TYPE, Exposition
from loadkit.emulator.faults import FaultPlan


class InfoRoutes:
    def __init__(
        self, config: EmulatorConfig, engine: Engine, faults: FaultPlan, clock: Clock
    ) -> None:
        self._config = config
        self._engine = engine
        self._faults = faults
        self._clock = clock

    async def models(self, _request: web.Request) -> web.Response:
        model = {
            "id": self._config.model,
            "object": "model",
            "created": int(self._engine.metrics.started_unix_s),
            "owned_by": "loadkit",
            "root": self._config.model,
            "max_model_len": self._config.limits.max_model_len,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def health(self, _request: web.Request) -> web.Response:
        sick = self._faults.on("unhealthy", self._clock.now_s())
        return web.Response(status=503 if sick else 200)

    async def version(self, _request: web.Request) -> web.Response:
        told = {"version": f"loadkit-{__version__}", "policy": self._config.policy.name}
        return web.json_response(told)

    async def metrics(self, _request: web.Request) -> web.Response:
        engine = self._engine
        text = Exposition(engine.metrics, engine.scheduler, self._config.model).text()
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    async def tokenize(self, request: web.Request) -> web.Response:
        fields = parse_object(await request.read(), self._config.model)
        prompt = prompt_of(fields, "chat" if "messages" in fields else "completions")
        ids = tokens.ids(prompt)
        body = {
            "count": len(ids),
            "max_model_len": self._config.limits.max_model_len,
            "tokens": ids,
            "token_strs": None,
        }
        return web.json_response(body)
