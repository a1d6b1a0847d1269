"""Arguments that several verbs share: read, checked, and kept without secrets."""

import contextlib
from typing import Any

import typer

from loadkit import units
from loadkit.errors import InputError, printable

_SECRET_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "cookie")


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it: no reason to give up a run
        typer.echo(printable(text), err=True)


def base_url(text: str) -> str:
    """The server's URL without the part that loadkit adds itself. Raises InputError without one."""
    if not text:
        raise InputError(
            "no target", hint="--target http://HOST:PORT, or --dry-run to send nothing"
        )
    return text.rstrip("/").removesuffix("/v1")


def recorded_command(arguments: list[str]) -> tuple[str, ...]:
    """The command line for the manifest: values of headers are kept only where they name a variable."""
    told = ["loadkit"]
    arguments = [argument for argument in arguments if argument != "--attached"]
    for before, argument in zip(["", *arguments], arguments, strict=False):
        flag, _, header = (
            argument.partition("=") if argument.startswith("--header=") else ("", "", "")
        )
        text = header if flag else argument if before == "--header" else ""
        name, colon, value = text.partition(":")
        hidden = f"{name}: ***" if colon and "$" not in value else text
        told.append(f"{flag}={hidden}" if flag else hidden or argument)
    return tuple(told)


def positive_s(flag: str, text: str) -> float:
    value_s = units.duration_s(text)
    if value_s <= 0:
        raise InputError(
            f"{flag} {text} leaves no time at all", hint="give a longer one: 500ms, 10m"
        )
    return value_s


def headers(texts: list[str] | tuple[()]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise InputError("--header is not 'Name: value'", hint="--header 'X-Team: search'")
        if name.strip().lower() in _SECRET_HEADERS and "$" not in value:
            raise InputError(
                f"--header {name.strip()}: a secret does not belong on a command line",
                hint=f"put it into an environment variable: --header '{name.strip()}: $MY_SECRET'",
            )
        found[name.strip()] = value.strip()
    return found


def one_of(flag: str, value: str, choices: tuple[str, ...]) -> Any:
    if value not in choices:
        raise InputError(f"{flag} {value!r} is unknown", hint=f"one of: {', '.join(choices)}")
    return value


def rates_rps(flag: str, text: str) -> tuple[float, ...]:
    """`5,10,15rps`, in rising order. Raises InputError."""
    parts = [part.strip().removesuffix("rps") for part in text.split(",")]
    try:
        rates = tuple(float(part) for part in parts)
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate < float("inf") for rate in rates):
        raise InputError(f"{flag} {text!r} is no list of rates", hint="for example 5,10,15rps")
    return tuple(sorted(rates))
