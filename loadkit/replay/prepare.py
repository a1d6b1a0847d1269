"""Before the first request: read the trace, look at the target, learn how long its prompts are."""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from loadkit import __version__, prompts, schedule, trace
from loadkit.drive.plan import Plan
from loadkit.engines import ENGINES, encode_body
from loadkit.errors import InputError, LoadkitError
from loadkit.model import BATCH, Slo, Target, Trace
from loadkit.observe.preflight import TargetInfo, identify, probe
from loadkit.prompts import Calibration, PromptMaker
from loadkit.records import Manifest, machine
from loadkit.replay.options import ReplayOptions
from loadkit.schedule import Schedule, Transforms

MAX_REPEATED_SHARE = 0.2
"""Of instants equal to the one before; honest arrivals at any rate repeat next to none."""


@dataclass(frozen=True, slots=True)
class Prepared:
    schedule: Schedule
    plan: Plan
    info: TargetInfo
    manifest: Manifest
    """As far as it is known before the start."""
    notes: tuple[str, ...] = ()
    """What a user should know before it starts."""


def load_planned(
    path: Path, trace_format: str | None, transforms: Transforms, slos: Sequence[Slo] = ()
) -> tuple[Trace, Schedule]:
    """Raises TraceError, or InputError, also for an SLO of a lane that is not there."""
    loaded = trace.load(path, trace_format)
    planned = schedule.build(loaded, transforms)
    lanes = {send.lane for send in planned.sends}
    for slo in slos:
        if slo.lane not in lanes:
            hint = f"lanes that are replayed: {', '.join(sorted(lanes))}"
            raise InputError(
                f"an SLO names the lane {slo.lane!r}, which is not replayed", hint=hint
            )
    return loaded, planned


async def prepare(options: ReplayOptions) -> Prepared:
    """Raises TraceError, InputError or TargetError; nothing has been written by then."""
    loaded, planned = load_planned(
        options.trace, options.trace_format, options.transforms, options.slos
    )
    info = await identify(options.target)
    target = replace(options.target, engine=info.engine, model=info.model)
    salt = secrets.token_hex(8)
    calibration = await _Prober(target, info, salt).calibrate()
    plan = Plan(
        sends=planned.sends,
        target=target,
        engine=info.engine,
        model=info.model,
        calibration=calibration,
        salt=salt,
        timeout_s=options.timeout_s,
        max_in_flight=options.max_in_flight,
        retries=options.retries,
    )
    notes = tuple(filter(None, (_too_long(planned, info), _quantised(planned))))
    return Prepared(planned, plan, info, _manifest(options, loaded, planned, info, plan), notes)


class _Prober:
    """Asks a target for one token, to see how it counts a prompt."""

    def __init__(self, target: Target, info: TargetInfo, salt: str) -> None:
        self._target, self._salt = target, salt
        self._engine = ENGINES[info.engine]
        self._model, self._models = info.model, info.models
        self._units = min(prompts.PROBE_UNITS, max(8, (info.max_model_len or 1 << 30) // 8))

    async def calibrate(self) -> Calibration:
        """The kind of prompt whose length in tokens comes out right. Raises InputError, TargetError."""
        if self._target.api == "completions" and self._engine.token_ids_ok:
            for id_range in prompts.TOKEN_ID_RANGES:
                exact = await self._as_token_ids(Calibration("token_ids", id_range=id_range))
                if exact is not None:
                    return exact
        words = self._units
        counted = await self._counted(Calibration("text"), words)
        if counted is None:  # the server counts nothing: planned lengths stay estimates
            return Calibration("text")
        if prompts.one_token_per_word(words, counted):
            return prompts.calibrate_text([(words, counted)])
        fewer = await self._counted(Calibration("text"), words // 4)
        assert fewer is not None
        return prompts.calibrate_text([(words, counted), (words // 4, fewer)])

    async def _as_token_ids(self, calibration: Calibration) -> Calibration | None:
        """With the overhead of this engine (0, or 1 for a BOS token); None where ids do not serve."""
        try:
            counted = await self._counted(calibration, self._units)
        except (
            LoadkitError
        ):  # outside its vocabulary (a 400 here, a 500 there), or not taken at all
            return None  # whatever else is wrong with the target, the next probe says
        overhead = 0 if counted is None else counted - self._units
        return replace(calibration, overhead_tokens=overhead) if overhead in (0, 1) else None

    async def _counted(self, calibration: Calibration, units: int) -> int | None:
        """Prompt tokens that the server counts for so many units; None when it does not say."""
        body = encode_body(
            self._engine,
            self._target.api,
            prompt_json=PromptMaker(calibration, self._salt).probe_json(units),
            model=self._model,
            output_tokens=1,
            stream=self._target.stream,
        )
        result = await probe(self._target, body, models=self._models)
        usage = result.reply.usage
        return usage.prompt_tokens if usage else None


def _too_long(planned: Schedule, info: TargetInfo) -> str:
    """A note on requests that the server will refuse; empty when all fit, or its limit is unknown.

    Raises InputError when not one of them fits.
    """
    limit = info.max_model_len
    lengths = [send.prompt_tokens + send.output_tokens for send in planned.sends]
    too_long = sum(length > limit for length in lengths) if limit else 0
    if not too_long:
        return ""
    what = f"of the trace are longer than the model's context of {limit:,} tokens"
    if too_long == len(lengths):
        hint = "start the server with a larger context, or choose a shorter trace"
        raise InputError(f"all {too_long:,} requests {what}", hint=hint)
    return f"{too_long:,} of {len(lengths):,} requests {what}: expect them to be refused"


def _quantised(planned: Schedule) -> str:
    """A note on instants that a recording rounded; a batch job's rows share one on purpose."""
    instants = [send.scheduled_s for send in planned.sends if send.lane != BATCH]
    repeated = sum(a == b for a, b in pairwise(instants))
    if repeated <= MAX_REPEATED_SHARE * len(instants):
        return ""
    return (
        f"{repeated / len(instants):.0%} of the requests share the instant of the one before them: the "
        "recording was rounded, and the load is a square wave (`loadkit trace convert --dejitter`)"
    )


def _manifest(
    options: ReplayOptions, loaded: Trace, planned: Schedule, info: TargetInfo, plan: Plan
) -> Manifest:
    return Manifest(
        loadkit_version=__version__,
        command=tuple(options.command),
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        trace={**asdict(loaded.info), "rows": len(loaded.requests)},
        transforms=_transforms(options.transforms, loaded.span_s),
        schedule=schedule.describe(planned),
        target=_target(plan, info),
        seed=options.transforms.seed,
        workers=options.workers,
        machine=machine(),
        anchor={},
        slos=tuple(asdict(slo) for slo in options.slos),
        limits={
            "timeout_s": options.timeout_s,
            "max_in_flight": options.max_in_flight,
            "retries": options.retries,
            "max_send_lag_s": options.max_send_lag_s,
        },
    )


def _transforms(transforms: Transforms, span_s: float) -> dict[str, Any]:
    """As asked; the window is null when it is the whole trace, so that every number is finite."""
    start_s, end_s = transforms.window_s
    whole = start_s == 0.0 and end_s > span_s
    return {**asdict(transforms), "window_s": None if whole else [start_s, min(end_s, span_s)]}


def _target(plan: Plan, info: TargetInfo) -> dict[str, Any]:
    return {
        "url": plan.target.url,
        "api": plan.target.api,
        "stream": plan.target.stream,
        "model": plan.model,
        "engine": plan.engine,
        "version": info.version,
        "max_model_len": info.max_model_len,
        "capacity": dict(info.capacity),
        "policy": info.policy,
        "unknown": dict(info.unknown),
        "calibration": asdict(plan.calibration),
        "prompt_salt": plan.salt,
    }
