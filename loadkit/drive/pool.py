"""Idle connections, and new ones opened ahead of the instant that needs them."""

import ssl
import time
from collections import deque
from urllib.parse import SplitResult, urlsplit

import gevent

from loadkit.drive.connection import Connection
from loadkit.drive.dial import ConnectError, open_connection
from loadkit.model import Target

CONNECT_TIMEOUT_S = 10.0
IDLE_LIMIT_S = 4.0
"""Common servers close an idle connection after 5 s; one that is about to be closed is not worth a race."""


class ConnectionPool:
    """Connections to one target. `reserve` some time before `acquire`."""

    def __init__(self, target: Target) -> None:
        self._url = urlsplit(target.url)
        self._context = _tls_context(target) if self._url.scheme == "https" else None
        self._idle: deque[Connection] = deque()
        """Longest idle first. Taken from the front, so that all of them stay in use and none grows stale."""
        self._reserved = 0
        self._opening = 0

    def reserve(self) -> None:
        """Announce an `acquire`: a connection is opened in the background when none would be free."""
        self._reserved += 1
        self._drop_stale()
        if len(self._idle) + self._opening < self._reserved:
            self._opening += 1
            gevent.spawn(self._open_ahead)

    def acquire(self, within_s: float = CONNECT_TIMEOUT_S) -> tuple[Connection, float | None]:
        """A live connection and the seconds spent opening it; None when one stood ready.

        Raises ConnectError.
        """
        self._reserved -= 1
        self._drop_stale()
        while self._idle:
            connection = self._idle.popleft()
            if not connection.dead:
                return connection, None
        return self.open(within_s)

    def forgo(self) -> None:
        """Take back a `reserve`."""
        self._reserved -= 1

    def open(self, within_s: float = CONNECT_TIMEOUT_S) -> tuple[Connection, float]:
        """A fresh connection, whatever is idle. Raises ConnectError."""
        begun_s = time.monotonic()
        host, port = host_and_port(self._url)
        limit_s = max(0.0, min(within_s, CONNECT_TIMEOUT_S))
        connection = open_connection(host, port, self._context, limit_s)
        return connection, time.monotonic() - begun_s

    def release(self, connection: Connection) -> None:
        if not connection.dead:
            self._idle.append(connection)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _open_ahead(self) -> None:
        try:
            self.release(self.open()[0])
        except ConnectError:
            return  # the request that needs it opens its own, and reports why it could not
        finally:
            self._opening -= 1

    def _drop_stale(self) -> None:
        oldest_s = time.monotonic() - IDLE_LIMIT_S
        while self._idle and (self._idle[0].dead or self._idle[0].idle_since_s < oldest_s):
            self._idle.popleft().close()


def host_and_port(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def _tls_context(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.ca_file)
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
