"""Talking HTTP to a target outside the load: sessions, bounded reads, and failures in plain words."""

import asyncio
import errno
import os
import ssl
from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from loadkit.errors import InputError, LoadkitError, TargetError
from loadkit.model import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONNECT_TIMEOUT_S = 5.0
MAX_BODY_BYTES = 8 * 1024 * 1024

Failure = (aiohttp.ClientError, TimeoutError, OSError)
"""What a request may raise when the target cannot be talked to."""


class BodyTooLargeError(aiohttp.ClientError):
    """An answer longer than `MAX_BODY_BYTES`."""


@asynccontextmanager
async def open_session(target: Target) -> "AsyncIterator[aiohttp.ClientSession]":
    """A session with the target's TLS settings and no headers. Raises InputError for bad ones."""
    check_url(target.url)
    connector = aiohttp.TCPConnector(ssl=_tls(target))
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield session


def check_url(url: str) -> None:
    """Raises InputError for anything but http(s)://host[:port][/prefix]."""
    hint = "write it like http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise InputError(f"{url!r} is not a URL", hint=hint) from None
    if parts.username is not None or parts.password is not None:
        raise InputError(  # not shown: it holds a secret
            "the target URL holds a user name or password",
            hint="give the key through an environment variable (--api-key-env, --header)",
        )
    if not known or parts.query or parts.fragment:
        raise InputError(f"{url!r} is not the URL of a server", hint=hint)
    if parts.path.rstrip("/").endswith("/v1"):
        raise InputError(f"{url!r} ends in /v1, which loadkit adds itself", hint="leave it out")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


async def get(
    session: aiohttp.ClientSession, url: str, timeout_s: float, headers: Mapping[str, str]
) -> Answer:
    """One GET. Raises one of `Failure`."""
    async with (
        asyncio.timeout(timeout_s),
        session.get(url, headers=headers, allow_redirects=False) as response,
    ):
        return Answer(response.status, response.headers, await read_bounded(response))


async def read_bounded(response: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises BodyTooLargeError before it takes too much memory."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise BodyTooLargeError(f"the answer is longer than {MAX_BODY_BYTES >> 20} MiB")
        pieces.append(piece)
    return b"".join(pieces)


def unreachable(url: str, error: BaseException) -> LoadkitError:
    """The TargetError to raise for a failed request to `url`."""
    what, hint = _words(url, error)
    return TargetError(f"{url}: {what}", hint=hint)


def reason(error: BaseException) -> str:
    """A failure in a few words without a URL, the same for the same cause."""
    return _words("", error)[0]


def _words(url: str, error: BaseException) -> tuple[str, str]:
    """What happened, and what to do. The most telling class comes first: many are OSErrors."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate_words(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        cause = getattr(error.os_error, "reason", None) or error.os_error
        return f"TLS failed ({cause})", "does this port speak TLS? try http:// instead of https://"
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return words
    if isinstance(error, OSError) and error.errno:
        return _system_words(error.errno)
    if isinstance(error, BodyTooLargeError):
        return str(error), "is this the right server?"
    hint = (
        "is the server healthy?" if url.startswith("https:") else "does it speak TLS? try https://"
    )
    return "it closed the connection without a whole HTTP answer", hint


_WORDS: tuple[tuple[type[BaseException], tuple[str, str]], ...] = (
    (
        aiohttp.ClientConnectorDNSError,
        ("its host name cannot be resolved", "check the spelling, or use an address"),
    ),
    (TimeoutError, ("no answer in time", "is the server up, and is no firewall in between?")),
)


def _system_words(code: int) -> tuple[str, str]:
    if code == errno.ECONNREFUSED:
        return "connection refused", "is the server running, and is the port right?"
    return os.strerror(code), "is the server reachable from here?"


def _certificate_words(error: BaseException) -> tuple[str, str]:
    cause = getattr(error, "verify_message", "") or str(error)
    if "self-signed" in cause or "self signed" in cause or "local issuer" in cause:
        return (
            f"its TLS certificate is not trusted ({cause})",
            "pass the certificate of its authority with --ca-file FILE",
        )
    return f"its TLS certificate is refused ({cause})", "use the host name the certificate is for"


def _tls(target: Target) -> ssl.SSLContext | bool:
    if not target.url.startswith("https:"):
        return True
    try:
        context = ssl.create_default_context(cafile=target.ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise InputError(
            f"{target.ca_file}: cannot be used as a CA file ({error.strerror or error})",
            hint="it must hold certificates in PEM form",
        ) from None
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def same_origin(url: str, other: str) -> bool:
    """Scheme, host and port alike: only then may one see the secrets of the other."""
    one, two = urlsplit(url), urlsplit(other)
    return (one.scheme, one.netloc) == (two.scheme, two.netloc)
