"""What a client says on a new connection: its login, and nothing else.

redis-py would also ask for notices of maintenance and send its name and version.  Each of these is a round trip before the first command.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from redis.connection import AbstractConnection

_HAS_DRIVER_INFO = "driver_info" in signature(AbstractConnection).parameters

LOGIN_ALONE: dict[str, Any] = {
    "protocol": 2,
    **({"driver_info": None} if _HAS_DRIVER_INFO else {"lib_name": None, "lib_version": None}),
}
"""Options of redis-py, also of its asyncio part."""
