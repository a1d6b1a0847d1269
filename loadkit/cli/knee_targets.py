"""What a search measures its steps with: the simulator, or a live server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadkit.cli.arguments import say
from loadkit.model import Slo, Target

Measure = Callable[[Path, Path, int | None], None]


def simulated(policy: str, limits: Any, profile: str, cost: Any) -> Measure:
    """Raises InputError for an unknown policy."""
    from loadkit.cli.sim import read_policy
    from loadkit.simulate import SimOptions, simulate

    chosen = read_policy(policy)

    def measure(trace: Path, output: Path, _missed: int | None) -> None:
        options = SimOptions(
            trace=trace,
            policies=[chosen],
            level="token",
            limits=limits,
            profile=profile,
            cost=cost,
            output=output,
        )
        simulate(options, lambda _: None)

    return measure


def live(target: Target, slo: Slo, warm_s: float, **settings: Any) -> Measure:
    from loadkit.replay import ReplayOptions, StopRule, replay

    def measure(trace: Path, output: Path, missed: int | None) -> None:
        rule = None if missed is None else StopRule(slo, warm_s, missed)
        options = ReplayOptions(
            trace=trace, output=output, target=target, slos=(slo,), stop_rule=rule, **settings
        )
        _summary, error = replay(options, say)
        if error is not None:
            raise error

    return measure


def context_tokens(target: Target) -> int | None:
    """The most tokens of a request, as the target tells. Raises TargetError, InputError."""
    from loadkit.observe.preflight import identify

    return asyncio.run(identify(target)).max_model_len
