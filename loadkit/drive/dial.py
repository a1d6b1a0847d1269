"""Opening connections: resolve, connect, shake hands, and keep a few ready ahead of need."""

import errno
import socket as stdlib_socket
import ssl
from typing import Any

import gevent
from gevent import monkey
from gevent.socket import getaddrinfo, wait_write

from loadkit.drive.connection import SO_TIMESTAMPNS, Connection
from loadkit.drive.tls import Tls, words

RawSocket = monkey.get_original("socket", "socket")


_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
"""This machine has no more sockets or ports to give: nothing that the target did."""


class ConnectError(Exception):
    """No connection: refused, unresolvable, timed out, or TLS said no."""

    def __init__(self, message: str, *, ours: bool = False) -> None:
        super().__init__(message)
        self.ours = ours
        """The client, not the target, was the limit."""


def open_connection(
    host: str, port: int, context: ssl.SSLContext | None, timeout_s: float
) -> Connection:
    """Resolve, connect and, with a context, shake hands. Raises ConnectError."""
    try:
        with gevent.Timeout(timeout_s):
            sock = _connected_socket(host, port)
            try:
                tls = None
                if context is not None:
                    tls = Tls(context, host)
                    tls.handshake(sock)
                return Connection(sock, tls)
            except BaseException:
                sock.close()
                raise
    except gevent.Timeout:
        raise ConnectError(f"connect: no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise ConnectError(f"connect: {words(error)}", ours=error.errno in _OURS) from error


def _connected_socket(host: str, port: int) -> Any:
    """A connected, non-blocking socket to the first address that answers. Raises OSError."""
    failure: OSError = OSError(f"{host}: no address")
    for family, kind, proto, _, address in getaddrinfo(host, port, 0, stdlib_socket.SOCK_STREAM):
        sock = RawSocket(family, kind, proto)
        try:
            sock.setblocking(False)
            sock.setsockopt(stdlib_socket.IPPROTO_TCP, stdlib_socket.TCP_NODELAY, 1)
            _ask_for_stamps(sock)
            _connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def _connect(sock: Any, address: Any) -> None:
    try:
        sock.connect(address)
    except BlockingIOError:
        wait_write(sock.fileno())
        code = sock.getsockopt(stdlib_socket.SOL_SOCKET, stdlib_socket.SO_ERROR)
        if code:
            raise OSError(code, "") from None


def _ask_for_stamps(sock: Any) -> None:
    try:
        sock.setsockopt(stdlib_socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return  # not Linux: the stamp taken after recv serves
