"""The tests of reading share the process that parses files: each would start one of its own, which takes longer than the test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

import ingest.read
from ingest.parser_process import ParserProcess
from ingest.raw_documents import ReadLimits


@pytest.fixture(scope="session", autouse=True)
def _shared_parser_process() -> Iterator[None]:
    class SharedProcess(ParserProcess):
        def __exit__(self, *_: object) -> None:
            pass

    @cache
    def process(limits: ReadLimits) -> SharedProcess:
        started.append(SharedProcess(limits))
        return started[-1]

    started = list[SharedProcess]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest.read, "ParserProcess", process)
        yield
    for shared in started:
        ParserProcess.__exit__(shared)
