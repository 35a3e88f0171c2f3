"""Signatures of plans and branch results, with a key that callers' logins cannot read.

A caller's login can write the entry of a request.  A worker therefore signs what it writes there, and a worker that reads it
believes nothing else:

    the plan's MAC         = MAC(request's id, request, coalescing key, plan)         by the planner
    a branch result's MAC  = MAC(request's id, plan's MAC, branch, branch result)     by the branch

The plan's MAC covers the acceptance too, since a plan names its moment: a branch result of another request, or of an earlier request
with the same id, does not verify.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Sequence
from typing import cast

from chorale_client.keys import SIGNING
from redis import Redis
from redis.exceptions import RedisError

KEY_BYTES = 32
READ_EVERY_S = 1.0
"""How often a process reads the key again because a signature did not verify."""


class Signer:
    """Thread-safe.  Signs with the first key, verifies with all.

    Without configured keys the key is in Redis: the first process that needs it makes it.
    """

    def __init__(self, client: Redis, configured: Sequence[bytes] = ()) -> None:
        self._client = client
        self._is_configured = bool(configured)
        self._keys = tuple(configured)
        self._read_at_s = 0.0
        self._lock = threading.Lock()

    def keep(self) -> None:
        """Read the key that all processes share, and write it back if Redis was emptied.  Raises RedisError."""
        if self._is_configured:
            return
        with self._lock:
            # GET comes first: a full Redis refuses SET NX even if the key exists.
            shared = cast("bytes | None", self._client.get(SIGNING))
            if shared is None:
                own_key = self._keys[0] if self._keys else secrets.token_bytes(KEY_BYTES)
                # A pipeline is not used, because its errors show the arguments of a command.
                shared = (
                    cast("bytes | None", self._client.set(SIGNING, own_key, nx=True, get=True)) or own_key
                )
            # The key before is kept: another process may have signed with it just now.
            self._keys = (shared, *[key for key in self._keys if key != shared][:1])
            self._read_at_s = time.monotonic()

    def sign(self, *parts: bytes) -> bytes:
        """Raises RedisError if the key was not read yet."""
        if not self._keys:
            self.keep()
        return _mac(self._keys[0], parts)

    def verifies(self, mac: bytes | None, *parts: bytes) -> bool:
        """Whether a process of this installation has signed these parts."""
        if not mac:
            return False
        if self._is_by(mac, parts):
            return True
        if self._is_configured or time.monotonic() < self._read_at_s + READ_EVERY_S:
            return False
        try:
            self.keep()
        except RedisError:
            return False
        return self._is_by(mac, parts)

    def _is_by(self, mac: bytes, parts: Sequence[bytes]) -> bool:
        return any(hmac.compare_digest(mac, _mac(key, parts)) for key in self._keys)


def _mac(key: bytes, parts: Sequence[bytes]) -> bytes:
    # With the lengths in front, no other parts make the same text.
    lengths = b",".join(b"%d" % len(part) for part in parts)
    return hmac.digest(key, b"\n".join((lengths, *parts)), "sha256")
