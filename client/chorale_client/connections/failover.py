"""Connections that follow an address to the new primary after a failover.

The server that was the primary keeps its connections, and answers each write on them with READONLY.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import ReadOnlyError, ResponseError


def follow_primary(pool: Any) -> None:
    """Have each connection of a pool, of redis-py or its asyncio part, connect anew after the reply READONLY.  Call it before
    the pool is used."""
    kind: Any = pool.connection_class
    is_async = kind.__module__.startswith("redis.asyncio")

    class Following(kind):  # type: ignore[misc]  # TCP, TLS or unix socket, as the address says
        is_on_replica = False

        def send_packed_command(self, *args: Any, **options: Any) -> Any:
            # Not at the reply: those to the other commands of a pipeline are still to be read.
            was_on_replica, self.is_on_replica = self.is_on_replica, False
            if is_async:
                return self._send(was_on_replica, *args, **options)
            if was_on_replica:
                self.disconnect()
            return super().send_packed_command(*args, **options)

        async def _send(self, was_on_replica: bool, *args: Any, **options: Any) -> Any:
            if was_on_replica:
                await self.disconnect()
            return await super().send_packed_command(*args, **options)

        def read_response(self, *args: Any, **options: Any) -> Any:
            if is_async:
                return self._read(*args, **options)
            try:
                return super().read_response(*args, **options)
            except ResponseError as error:
                self.is_on_replica = _is_read_only(error)
                raise

        async def _read(self, *args: Any, **options: Any) -> Any:
            try:
                return await super().read_response(*args, **options)
            except ResponseError as error:
                self.is_on_replica = _is_read_only(error)
                raise

    pool.connection_class = Following


def _is_read_only(error: ResponseError) -> bool:
    # The error of a script may quote the reply.
    return isinstance(error, ReadOnlyError) or "READONLY " in str(error)
