"""What a server's refusal of a preflight request means, and what its user can do about it."""

import re

from loadkit.engines.reply import one_line
from loadkit.errors import InputError
from loadkit.model import Target

_SHOWN_MODELS = 10
_NO_MODEL = re.compile(r"\bmodel\b.*\b(exist|found|unknown|invalid)", re.IGNORECASE)


def wrongly_asked(
    target: Target, url: str, status: int, said: str, models: tuple[str, ...]
) -> InputError | None:
    """The error behind an HTTP status that says what was asked wrongly; None for all others."""
    message = f"{url}: HTTP {status}" + (f": {said}" if said else "")
    if status in (401, 403):
        return refused_key(target, message)
    if status in (400, 404) and _NO_MODEL.search(said):
        return InputError(message, hint=served(models))
    if status in (404, 405):
        other = "chat" if target.api == "completions" else "completions"
        return InputError(message, hint=f"is there no such API here? try --api {other}")
    if "chat template" in said:
        return InputError(message, hint="the model is no chat model: use --api completions")
    if status in (400, 422):
        return InputError(message, hint="a field it does not take? name its kind with --engine")
    return None


def refused_key(target: Target, message: str) -> InputError:
    if target.api_key_env is None:
        return InputError(message, hint="it wants a key: export it and name it with --api-key-env")
    return InputError(
        message, hint=f"the key came from ${target.api_key_env}: is it the right one?"
    )


def served(models: tuple[str, ...]) -> str:
    if not models:
        return "name a model that it serves with --model"
    more = f" and {len(models) - _SHOWN_MODELS} more" if len(models) > _SHOWN_MODELS else ""
    return "it serves " + ", ".join(one_line(name) for name in models[:_SHOWN_MODELS]) + more
