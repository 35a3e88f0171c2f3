"""Comparing a million documents with the stores, and catching up with them, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.new_process import printed
from tests.support.servers.database_process import BRING_UP
from tests.support.servers.databases import empty_database

MOST_MB = 300
_WORK = '''
import os, resource
from pathlib import Path
from sqlalchemy import text
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Entry
from tests.support.stores.several_stores import MANIFEST, NS, opened

COUNT = 1_000_000
numbers = {
    "sqlite": "(WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000000) SELECT n FROM n)",
    "postgresql": "generate_series(1, 1000000)",
}

class Server(EmbeddedStore):
    """Its index lacks the first half of the documents, and has as many that nobody knows."""

    def entries(self, index):
        return (Entry(f"d{number}", f"p{number}", "1") for number in range(COUNT // 2 + 1, COUNT * 3 // 2 + 1))

folder = Path(os.environ["FOLDER"])
server = Server(folder / "server")
store = opened(os.environ["URL"], server=server)
store.create(NS, MANIFEST)
build = store.known(NS)
with store.table.writing(NS) as connection:
    values = {"id": build.namespace_id}
    rows = numbers[connection.dialect.name] + " AS n(n)" * (connection.dialect.name == "postgresql")
    connection.execute(text(
        "INSERT INTO chorale_document (namespace_id, document_id, sequence, source, title, metadata, content_hash, revision)"
        f" SELECT :id, 'd' || n, n / 256 + 1, 'tests', '', '{{}}', '', '1' FROM {rows}"), values)
    connection.execute(text(
        "INSERT INTO chorale_passage (namespace_id, document_id, passage_id, sequence, position, heading, text, start, \\"end\\")"
        f" SELECT :id, 'd' || n, 'p' || n, n / 256 + 1, 0, '', 'rent', 0, 0 FROM {rows}"), values)
    connection.execute(text(f"UPDATE chorale_namespace SET sequence = {COUNT // 256 + 1}"))
    connection.execute(text(f"UPDATE chorale_index SET sequence = {COUNT // 256 + 1}"))
'''
_PEAK = "\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
_VERIFY = """
[difference] = store.verify(NS, mends=False).values()
print(sorted(difference.counts.items()), len(difference.missing), len(difference.surplus))
"""
_CATCH_UP = """
print(sum(len(documents) for documents, _ in store.table.changed_since(build, 0)))
with store.table.writing(NS) as connection:
    connection.execute(text("UPDATE chorale_index SET sequence = 0"))
print(len(store.unwritten(NS)))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as address:
        BRING_UP["documents"](address)
        yield address


@pytest.mark.slow
def test_verify_and_catching_up_need_no_more_memory_for_a_million_documents(url: str, tmp_path: Path) -> None:
    lines = printed(_WORK + _VERIFY + _CATCH_UP + _PEAK, 110, URL=url, FOLDER=str(tmp_path))
    *seen, peak_mb = lines
    assert seen == ["[('missing', 500000), ('surplus', 500000)] 10000 10000", "1000000", "10000"]
    assert int(peak_mb) < MOST_MB
