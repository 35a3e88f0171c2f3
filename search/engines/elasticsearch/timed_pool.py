"""A time limit for a whole answer over urllib3."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

from urllib3 import Timeout
from urllib3.exceptions import ReadTimeoutError

_PIECE_BYTES = 65_536


class TimedPool:
    """A pool of connections with a time limit for the whole answer; urllib3 limits only each read."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def urlopen(
        self, method: str, target: str, *body: Any, timeout: float | None = None, **options: Any
    ) -> Any:
        if timeout is None:
            return self._pool.urlopen(method, target, *body, **options)
        end = time.monotonic() + timeout
        response = self._pool.urlopen(
            method,
            target,
            *body,
            timeout=Timeout(total=timeout),
            pool_timeout=timeout,
            preload_content=False,
            **options,
        )
        pieces = []
        try:
            while piece := response.read1(_PIECE_BYTES, decode_content=True):
                pieces.append(piece)
                remaining_s = end - time.monotonic()
                if remaining_s <= 0:
                    raise ReadTimeoutError(self._pool, target, "the answer did not end in time")
                if (connection := response.connection) is not None and connection.sock is not None:
                    connection.sock.settimeout(remaining_s)
        except BaseException:
            # The rest of this answer must not be read as the next call's answer, and the closed connection goes back into the pool.
            response.close()
            response.release_conn()
            raise
        response.release_conn()
        return _read(response, b"".join(pieces))

    def close(self) -> None:
        self._pool.close()


def _read(response: Any, data: bytes) -> SimpleNamespace:
    """The complete answer.  An error that is not JSON comes from a proxy; as plain text, the client goes by its status."""
    headers = response.headers
    if not 200 <= response.status < 300:
        try:
            json.loads(data)
        except ValueError:
            headers, data = headers.copy(), data.decode(errors="replace").encode()
            headers["content-type"] = "text/plain"
    return SimpleNamespace(status=response.status, headers=headers, data=data)
