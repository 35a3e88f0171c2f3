"""One TLS context for all connections of a pool.

Making a context reads every authority that the system trusts, which takes 20 to 40 ms of processor time.  Threads that connect anew at the
same time, after a failover, would otherwise need seconds for it, and all miss their time limits.
"""

from __future__ import annotations

import math
import socket
from ssl import SSLContext
from typing import Any

from redis import ConnectionPool, SSLConnection

from chorale_client.connections import idle

CONTEXT_TTL_S = 60.0
"""After this time a context is made anew, with the certificates that are there by then."""


def share_context(pool: ConnectionPool) -> None:
    """Call it before the pool is used."""
    kind: Any = pool.connection_class
    if not issubclass(kind, SSLConnection):
        return

    class Sharing(kind):  # type: ignore[misc]  # with whatever the pool's connections do besides
        made_at_s = -math.inf
        context: SSLContext

        def _wrap_socket_with_ssl(self, sock: socket.socket) -> Any:
            if self.ssl_validate_ocsp or self.ssl_validate_ocsp_stapled:
                return super()._wrap_socket_with_ssl(sock)
            if idle.now_s() - Sharing.made_at_s > CONTEXT_TTL_S:
                # A socket that is not connected, so that there is no handshake.
                with socket.socket() as bare, super()._wrap_socket_with_ssl(bare) as wrapped:
                    Sharing.context = wrapped.context
                Sharing.made_at_s = idle.now_s()
            return Sharing.context.wrap_socket(sock, server_hostname=self.host)

    pool.connection_class = Sharing
