"""Comparing a million documents with the stores, and catching up with them, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.new_process import printed
from tests.support.servers.database_process import BRING_UP
from tests.support.servers.databases import empty_database

MOST_MB = 300
_WORK = '''
import os, re
from pathlib import Path
from sqlalchemy import text
from search.engines.embedded.store import EmbeddedStore
from search.protocol import Entry
from tests.support.stores.several_stores import MANIFEST, NS, opened

COUNT = int(os.environ["COUNT"])
FIRST = 10_000_000  # ids of one length, so that rows are inserted in the order of their keys
numbers = {
    "sqlite": f"(WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {COUNT}) SELECT n FROM n)",
    "postgresql": f"generate_series(1, {COUNT})",
}

class Server(EmbeddedStore):
    """A store whose index lacks the first half of the documents, and has as many that nobody knows."""

    def entries(self, index):
        numbers = range(FIRST + COUNT // 2 + 1, FIRST + COUNT * 3 // 2 + 1)
        return (Entry(f"d{number}", f"p{number}", "1") for number in numbers)

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
        f" SELECT :id, 'd' || ({FIRST} + n), n / 256 + 1, 'tests', '', '{{}}', '', '1' FROM {rows}"), values)
    connection.execute(text(
        "INSERT INTO chorale_passage (namespace_id, document_id, passage_id, sequence, position, heading, text, start, \\"end\\")"
        f" SELECT :id, 'd' || ({FIRST} + n), 'p' || ({FIRST} + n), n / 256 + 1, 0, '', 'rent', 0, 0 FROM {rows}"), values)
    connection.execute(text(f"UPDATE chorale_namespace SET sequence = {COUNT // 256 + 1}"))
    connection.execute(text(f"UPDATE chorale_index SET sequence = {COUNT // 256 + 1}"))
'''
_PEAK = r"""
# `ru_maxrss` would have the peak of the process that has started this one.
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
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


@pytest.mark.slow
@pytest.mark.limit_s(300)
@pytest.mark.parametrize(
    ("kind", "count"),
    [("sqlite", 100_000), pytest.param("sqlite", 1_000_000, marks=pytest.mark.long), ("postgresql", 100_000)],
)
def test_verify_and_catching_up_need_no_more_memory_for_many_documents(
    kind: str, count: int, tmp_path: Path
) -> None:
    with empty_database(kind, tmp_path) as url:
        BRING_UP["documents"](url)
        program = _WORK + _VERIFY + _CATCH_UP + _PEAK
        *lines, peak_mb = printed(program, 290, URL=url, FOLDER=str(tmp_path), COUNT=str(count))
    half = count // 2
    assert lines == [f"[('missing', {half}), ('surplus', {half})] 10000 10000", str(count), "10000"]
    assert int(peak_mb) < MOST_MB
