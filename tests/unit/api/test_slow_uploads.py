"""An upload has a time in all, and a lowest rate once the service has waited for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from types import SimpleNamespace

import pytest

from api import upload_limits
from api.problems import Problem
from api.upload_limits import LEAST_BYTES_A_SECOND, LONGEST_S, SILENT_S, paced


def bytes_read(monkeypatch: pytest.MonkeyPatch, chunk: bytes) -> tuple[int, str]:
    """How much is read of a body that never ends, with a chunk each second, and what the problem says."""
    half_seconds = count()
    # The clock is read before and after each chunk.
    monkeypatch.setattr(upload_limits, "time", SimpleNamespace(monotonic=lambda: next(half_seconds)))

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield chunk

    read = 0

    async def read_all() -> None:
        nonlocal read
        async for read_chunk in paced(body()):
            read += len(read_chunk)

    with pytest.raises(Problem) as raised:
        asyncio.run(read_all())
    return read, str(raised.value)


def test_an_upload_that_comes_too_slowly_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    read, problem = bytes_read(monkeypatch, b"x" * (LEAST_BYTES_A_SECOND - 1))
    assert (read, problem) == (
        SILENT_S * (LEAST_BYTES_A_SECOND - 1),
        "the body came with less than 1000 bytes a second",
    )


def test_an_upload_that_lasts_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    read, problem = bytes_read(monkeypatch, b"x" * LEAST_BYTES_A_SECOND)
    assert (read, problem) == (LONGEST_S * LEAST_BYTES_A_SECOND, "the body took longer than 3600 s")
