"""Connections that were idle: a balancer or a firewall may have dropped them, without telling either side."""

from __future__ import annotations

import socket
import time
from typing import Any

IDLE_S = 1.0
"""After this time without a reply, a connection is checked with PING before it is used."""
ANSWERS_WITHIN_S = 0.5
"""A connection is replaced if the server does not answer PING or SUBSCRIBE within this time.  The farthest servers take .4 s."""

now_s = time.monotonic
"""The clock of pauses, which tests set forward."""

_KEEP_ALIVE_S = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Balancers drop connections that were idle for a minute or more.  Linux's default begins after two hours."""


def keep_alive(url: str) -> dict[str, Any]:
    """redis-py's options for an address, so that the system keeps idle connections alive and notices dead ones."""
    if url.startswith("unix:"):
        return {}
    options = {getattr(socket, name): value for name, value in _KEEP_ALIVE_S.items() if hasattr(socket, name)}
    return {"socket_keepalive": True, "socket_keepalive_options": options}
