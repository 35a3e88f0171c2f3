"""An upload has a time in all, and a lowest rate once the service has waited for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from api.jobs import uploads
from api.jobs.uploads import LEAST_BYTES_A_SECOND, LONGEST_S, SILENT_S, Upload
from api.problems import Problem


def bytes_read(monkeypatch: pytest.MonkeyPatch, chunk: bytes) -> tuple[int, str]:
    """How much is read of a body that never ends, with a chunk each second, and what the problem says."""
    half_seconds = count()
    # The clock is read before and after each chunk.
    monkeypatch.setattr(uploads, "time", SimpleNamespace(monotonic=lambda: next(half_seconds)))

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield chunk

    request: Any = SimpleNamespace(headers={}, stream=body)
    upload = Upload(request)
    read = 0

    async def read_all() -> None:
        nonlocal read
        while True:
            read += len(await upload._next() or b"")

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
