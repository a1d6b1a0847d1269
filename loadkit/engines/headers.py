"""Request headers. Secrets go from the environment into the mapping and nowhere else."""

import re
from collections.abc import Mapping, Sequence
from string import Template
from urllib.parse import quote

from loadkit.errors import InputError
from loadkit.model import Target

_LEAST_SECRET = 4
"""Shorter values are no secrets, and stand in too many words."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def request_headers(target: Target, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers that every request to `target` carries, its key and extra headers included.

    Raises InputError where an environment variable is not set or a value cannot be a header.
    """
    headers = {"Content-Type": "application/json"}
    if target.api_key_env:
        headers["Authorization"] = f"Bearer {_api_key(target.api_key_env, environ)}"
    for name, value in target.headers.items():
        headers[name] = _expanded(name, value, environ)
    for name, value in headers.items():
        _check(name, value)
    return headers


def lane_headers(
    lane: str,
    tenant: str | None = None,
    priority: int | None = None,
    deadline_in_s: float | None = None,
) -> dict[str, str]:
    """What a scheduler before or in the engine may want to know about one request.

    `deadline_in_s` counts from now, the sending: the server does not know when the run began.
    Names are percent-encoded where a header could not carry them.
    """
    headers = {"X-Loadkit-Lane": quote(lane, safe=" /:")}
    if tenant is not None:
        headers["X-Loadkit-Tenant"] = quote(tenant, safe=" /:")
    if priority is not None:
        headers["X-Loadkit-Priority"] = str(priority)
    if deadline_in_s is not None:
        headers["X-Loadkit-Deadline-S"] = f"{deadline_in_s:.3f}"
    return headers


def fill_in(template: str, known: Mapping[str, object]) -> str | None:
    """A header's value for one request: `{lane}`, `{tenant}`, `{priority}`, `{deadline_s}`.

    None when the request has nothing for one of them: the header is then left out. Other braces stay.
    """
    for name, value in known.items():
        placeholder = f"{{{name}}}"
        if placeholder in template:
            if value is None:
                return None
            template = template.replace(placeholder, quote(str(value), safe=" /:"))
    return template


def _api_key(name: str, environ: Mapping[str, str]) -> str:
    key = environ.get(name, "").strip()
    if not key:
        raise InputError(
            f"environment variable {name} is not set, and the API key should come from it",
            hint=f"export {name}=…, or name another variable",
        )
    return key


def _expanded(name: str, value: str, environ: Mapping[str, str]) -> str:
    try:
        return Template(value).substitute(environ)
    except KeyError as error:
        raise InputError(
            f"header {name}: environment variable {error.args[0]} is not set",
            hint=f"export {error.args[0]}=…; a literal dollar sign is written $$",
        ) from None
    except ValueError:
        raise InputError(
            f"header {name}: a '$' in its value names no variable",
            hint="write $NAME or ${NAME}; a literal dollar sign is written $$",
        ) from None


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be the name of a header")
    if not value.isascii() or not value.isprintable():
        raise InputError(  # the value may hold a secret, so it is not shown
            f"header {name}: its value holds a line break or another character no header can carry",
            hint="look at the environment variable that it comes from",
        )


def secrets(target: Target, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values that came from the environment, for `without_secrets`."""
    names = {name for text in target.headers.values() for name in Template(text).get_identifiers()}
    if target.api_key_env:
        names.add(target.api_key_env)
    found = {environ.get(name, "").strip() for name in names}
    return tuple(sorted((value for value in found if len(value) >= _LEAST_SECRET), key=len)[::-1])


def without_secrets(text: str, found: Sequence[str]) -> str:
    """Server text with `found` blanked, also where the text was cut in one: servers repeat keys."""
    for secret in found:
        text = text.replace(secret, "***")
        body = text.removesuffix("…")
        for length in range(min(len(secret), len(body)), _LEAST_SECRET - 1, -1):
            if body.endswith(secret[:length]):
                text = body[:-length] + "***"
                break
    return text
