"""A disk that is really full: the database of the store is on a file system of 48 MB, which another file fills."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.errors import StoreUnavailable
from search.protocol import Search
from tests.contracts.store_documents import document
from tests.support.servers.postgresql_server import PostgresqlServer, opened
from tests.support.servers.services import missing
from tests.support.stores.known_index import index_of, revisions

LEFT = 256 * 1024
"""The number of bytes that the other file leaves free."""


@pytest.fixture
def disk(server: PostgresqlServer) -> Iterator[Path]:
    folder = server.folder / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "none", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode:
        missing("without the right to mount a file system: run as root")
    try:
        space = folder / "space"
        space.mkdir(mode=0o700)
        if server.user is not None:
            shutil.chown(space, server.user)
        server.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        server.execute("CREATE DATABASE small TABLESPACE small")
        yield folder
    finally:
        server.execute("DROP DATABASE IF EXISTS small WITH (FORCE)")
        server.execute("DROP TABLESPACE IF EXISTS small")
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_named_keeps_the_last_whole_batch_and_takes_the_next_when_there_is_space(
    server: PostgresqlServer, disk: Path
) -> None:
    before = {f"d{n}": "1" for n in range(20)}
    batch = [document(f"e{n}", " ".join(f"pear w{n}x{word}" for word in range(200))) for n in range(50)]
    with opened(server.url("small")) as store:
        store.create(index_of())
        store.write(index_of(), [document(name, "pear") for name in before], ())

        def hits() -> int:
            (ranking,) = store.search_text("ns", ["pear"], Search(depth=1_000, timeout_s=30))
            return len(ranking.hits)

        state = os.statvfs(disk)
        with (disk / "other").open("wb") as other:
            os.posix_fallocate(other.fileno(), 0, state.f_bavail * state.f_frsize - LEFT)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"could not extend file.*No space left on device"):
                store.write(index_of(), batch, ())
            assert revisions(store).keys() == before.keys()
            assert hits() == 20
        (disk / "other").unlink()
        store.write(index_of(), batch, ())
        assert len(revisions(store)) == 70
        assert hits() == 70
