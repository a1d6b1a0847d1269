"""TLS without a socket of its own, and socket errors in words."""

import os
import ssl
from typing import Any

from gevent.socket import wait_read, wait_write

RECV_BYTES = 1 << 16


class Tls:
    """TLS as bytes in, bytes out, so that the reading path and its stamps stay the same."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def handshake(self, sock: Any) -> None:
        """Raises OSError (ssl.SSLError among them)."""
        while True:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(sock)
                wait_read(sock.fileno())
                data = sock.recv(RECV_BYTES)
                if not data:
                    raise ConnectionResetError("closed during the TLS handshake") from None
                self._incoming.write(data)
            else:
                self._flush(sock)
                return

    def encrypt(self, plain: bytes) -> bytes:
        self._object.write(plain)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self._incoming.write(data)
        pieces: list[bytes] = []
        while True:
            try:
                piece = self._object.read(RECV_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                return b"".join(pieces)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    def _flush(self, sock: Any) -> None:
        data = self._outgoing.read()
        while data:
            try:
                data = data[sock.send(data) :]
            except BlockingIOError:
                wait_write(sock.fileno())


def words(error: OSError) -> str:
    """An OSError in a few words, without addresses that differ from request to request."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    code = error.errno
    return os.strerror(code) if code and code > 0 else str(error)
