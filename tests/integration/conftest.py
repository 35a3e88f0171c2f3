"""A Redis with logins and TLS, as several machines have it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.redis_acl import SecuredRedis, needs_tls


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredRedis]:
    needs_tls()
    with SecuredRedis() as server:
        yield server
