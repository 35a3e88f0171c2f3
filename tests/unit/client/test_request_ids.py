"""Whoever knows a request's id can read and end it with a caller's login, so nobody can guess one."""

from __future__ import annotations

import uuid

from chorale_client.request_factory import make_request


def test_the_id_of_a_request_has_122_random_bits() -> None:
    ids = [uuid.UUID(make_request("Who pays?").request_id) for _ in range(100)]
    assert {one.version for one in ids} == {4}
    assert len(set(ids)) == len(ids)
