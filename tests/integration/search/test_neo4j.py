"""A graph in Neo4j, against a real server: rows, bound values, and a server that fails."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from models.errors import NotConfigured, StoreTimeout, StoreUnavailable, Unauthorised
from models.hits import Ranking
from search.engines.neo4j.store import Neo4jStore
from search.kinds import open_neo4j
from search.protocol import Search
from tests.contracts.cypher import CypherContract
from tests.support.servers.neo4j_server import PASSWORD, Neo4jServer
from tests.support.servers.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.long, pytest.mark.limit_s(600)]

FILL = """
CREATE (a:Page {id: 'a', ns: 'ns', title: 'Ada', text: 'Ada <wrote> notes.', owner: 'x', written: date('2024-05-01')})
CREATE (b:Page {id: 'b', ns: 'ns', title: 'Bernoulli', owner: 'y', at: point({x: 1.0, y: 2.0}), none: 0.0 / 0.0})
CREATE (a)-[:CITES {since: 1843}]->(b)
CREATE (:Note {id: 'a', ns: 'ns', owner: 'x', weight: 1}), (:Note {id: 'b', ns: 'ns', owner: 'y', weight: 3})
CREATE (:Note {id: 'c', ns: 'ns', owner: 'y', weight: 2}), (:Note {id: 'd', ns: 'other', owner: 'x', weight: 4})
"""
PAGES = """
MATCH (page:Page {ns: $namespace}) WHERE $filter_owner IS NULL OR page.owner IN $filter_owner
OPTIONAL MATCH (page)-[cites:CITES]->(cited)
RETURN page.id AS id, page.title AS title, page.text AS text, page.owner AS owner, toString(page.written) AS published_at,
       count(cited) AS score, page.at AS at, page.none AS none, collect(cites) AS cites, page
ORDER BY page.id LIMIT $limit
"""

Opens = Callable[..., Neo4jStore]


@pytest.fixture(scope="module")
def running() -> Iterator[Neo4jServer]:
    with Neo4jServer() as server:
        with server.driver() as driver:
            driver.execute_query(FILL)
        yield server


@pytest.fixture
def opens(running: Neo4jServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    stores: list[Neo4jStore] = []

    def open_(*, password: str = PASSWORD, **options: Any) -> Neo4jStore:
        monkeypatch.setenv("NEO4J_PASSWORD", password)
        options = {"url": running.url, "password_env": "NEO4J_PASSWORD", "timeout_s": 60, **options}
        stores.append(open_neo4j("neo", options))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def ask(
    store: Neo4jStore,
    statement: str = PAGES,
    *,
    score: str | None = None,
    namespace: str = "ns",
    **options: Any,
) -> Ranking:
    values = {"question": "Ada?", "entities": ["Ada"], "filter_owner": None, **options.pop("values", {})}
    search = Search(**{"depth": 10, "timeout_s": 60.0, **options})
    (ranking,) = store.search_cypher(namespace, statement, [values], search, score=score)
    return ranking


def ids(ranking: Ranking) -> list[str]:
    return [hit.document_id for hit in ranking.hits]


def test_rows_are_hits_with_their_texts_and_metadata(opens: Opens) -> None:
    ranking = ask(opens())
    assert ids(ranking) == ["neo/a", "neo/b"]
    assert ranking.hits[0].published_at == "2024-05-01"
    text = ranking.texts["neo/a#neo"]
    assert (text.title, text.text, text.metadata["owner"]) == ("Ada", "Ada <wrote> notes.", "x")
    assert text.metadata["cites"] == [{"since": 1843}]
    assert text.metadata["page"]["written"] == "2024-05-01"
    other = ranking.texts["neo/b#neo"].metadata
    assert (other["at"], "none" in other) == ([1.0, 2.0], False)


def test_other_namespaces_than_the_declared_ones_find_nothing_and_an_unknown_column_is_named(
    opens: Opens,
) -> None:
    assert ids(ask(opens(namespaces=["default"]))) == []
    unknown = ask(opens(), filters={"team": "a"})
    assert (unknown.hits, len(unknown.warnings)) == ((), 1)


class TestNeo4j(CypherContract):
    page = "(page:Note {ns: $namespace})"

    @pytest.fixture
    def store(self, opens: Opens) -> Neo4jStore:
        return opens(id_prefix="")


def test_the_server_refuses_to_write_unless_the_store_allows_it(opens: Opens) -> None:
    name = uuid.uuid4().hex
    statement = f"CREATE (made:Made {{id: '{name}'}}) RETURN made.id AS id"
    with pytest.raises(NotConfigured, match="read access mode"):
        ask(opens(), statement)
    count = f"MATCH (made:Made {{id: '{name}'}}) RETURN made.id AS id"
    assert ids(ask(opens(), count)) == []
    assert ids(ask(opens(allow_write=True), statement)) == [f"neo/{name}"]
    assert ids(ask(opens(), count)) == [f"neo/{name}"]


def test_a_wrong_password_is_unauthorised_and_a_missing_one_names_its_variable(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unauthorised) as refused:
        ask(opens(password="wrong-0815"))
    assert "wrong-0815" not in str(refused.value)
    monkeypatch.delenv("NEO4J_PASSWORD")
    with pytest.raises(NotConfigured, match="NEO4J_PASSWORD is not set"):
        open_neo4j("neo", {"url": "bolt://127.0.0.1:1", "password_env": "NEO4J_PASSWORD"})


def test_a_hung_server_costs_the_time_of_the_search_and_one_that_goes_on_answers(
    running: Neo4jServer, opens: Opens
) -> None:
    store = opens()
    ask(store)
    running.pause()
    try:
        with pytest.raises(StoreTimeout):
            ask(store, timeout_s=0.5)
    finally:
        running.go_on()
    assert ids(ask(store)) == ["neo/a", "neo/b"]


def test_a_server_that_closes_its_connections_is_unavailable_until_it_is_back(
    running: Neo4jServer, opens: Opens
) -> None:
    with TcpProxy(("127.0.0.1", running.port)) as proxy:
        store = opens(url=f"bolt://127.0.0.1:{proxy.port}")
        assert ids(ask(store)) == ["neo/a", "neo/b"]
        proxy.is_refusing = True
        assert proxy.cut() > 0
        with pytest.raises(StoreUnavailable):
            ask(store)
        proxy.is_refusing = False
        assert ids(ask(store)) == ["neo/a", "neo/b"]
        store.close()
