"""The texts of a source's hits are in MongoDB: a real server of its protocol, and servers that are dead or silent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from bson.objectid import ObjectId
from pymongo.collection import Collection

from models.declarations.sources import MongodbTexts
from models.errors import InvalidAnswer, StageFailure, StoreUnavailable, Unauthorised
from models.hits import Ranking
from search.engines.http.mongodb_texts import MongodbCollection
from search.engines.http.source import HttpSource
from search.kinds import open_http_source
from search.protocol import Search
from tests.support.servers.mongodb_server import DATABASE, PASSWORD, USER, MongodbServer
from tests.support.servers.own_server import free_ports
from tests.support.servers.search_server import SearchServer, says
from tests.support.stores.wiki_source import Opens, ranking_of

VARIABLE = "FARM_MONGODB_URL"
WHEAT = ObjectId("66f0c0ffee0000000000beef")
HITS: list[dict[str, Any]] = [{"id": str(WHEAT), "name": "hit"}, {"id": "gone"}, {"id": "cows"}, {"id": 7}]


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of each call of the driver."""
    requests: list[Any] = []
    find = Collection.find_raw_batches

    def noted(collection: Collection[Any], *arguments: Any) -> Any:
        requests.append(arguments)
        return find(collection, *arguments)

    monkeypatch.setattr(Collection, "find_raw_batches", noted)
    return requests


@pytest.fixture(scope="module")
def mongodb() -> Iterator[MongodbServer]:
    cows = {"_id": "cows", "content": "A cow drinks eighty litres.", "of": {"title": "Cows"}}
    wheat = {"_id": WHEAT, "content": "Wheat needs nitrogen.", "of": {"title": "Wheat"}, "size": 3}
    textless = {"_id": 7, "content": {"de": "Roggen"}, "of": {"title": "No text"}}
    hen = {"number": 7.0, "content": "A hen lays an egg."}
    with MongodbServer() as server:
        server.insert("chunks", [cows, wheat, textless])
        server.insert("numbered", [hen, {"number": [7, "gone"], "content": "Torn."}])
        server.insert("typed", [{"_id": id_, "content": repr(id_)} for id_ in ("7", 7, 8.0, "9")])
        server.insert("long", [{"_id": hit["id"], "content": "x" * 1_000} for hit in HITS])
        yield server


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    """Opens the source `farm`, whose texts are at this address, with further options."""
    made: list[HttpSource] = []
    with SearchServer() as index:
        index.answer = says(HITS)

        def open_(address: str, max_bytes: int = 1_000_000, **options: Any) -> HttpSource:
            monkeypatch.setenv(VARIABLE, address)
            texts: Any = {
                "kind": "mongodb",
                "url_env": VARIABLE,
                "database": DATABASE,
                "collection": "chunks",
            }
            endpoint = {"url": index.url, "params": {"q": "{question}"}, "id": "id", "title": "name"}
            texts |= {"text": "content", "timeout_s": 20.0, **options}
            made.append(open_http_source("farm", {**endpoint, "max_bytes": max_bytes, "texts": texts}))
            return made[-1]

        yield open_
        for source in made:
            source.close()


def texts(ranking: Ranking) -> list[tuple[str, str, str]]:
    """Document, title and text of each hit."""
    passages = [ranking.texts[hit.passage_id] for hit in ranking.hits]
    return [(one.document_id, one.title, one.text) for one in passages]


def test_texts_are_read_by_id_in_one_call_and_hits_without_a_text_are_left_out_and_counted(
    mongodb: MongodbServer, opens: Opens, finds: list[Any]
) -> None:
    source = opens(mongodb.url(), title="of.title")
    ranking = ranking_of(source)
    assert texts(ranking) == [
        (f"farm/{WHEAT}", "Wheat", "Wheat needs nitrogen."),
        ("farm/cows", "Cows", "A cow drinks eighty litres."),
    ]
    said = "document_missing: farm: 2 of 4 hits have no text in the collection, and are left out"
    assert ranking.warnings == (said,)
    wanted = {"_id": {"$in": [str(WHEAT), WHEAT, "gone", "cows", 7, "7"]}}
    assert finds == [(wanted, {"_id": True, "of.title": True, "content": True})]
    questions = ["How much does a cow drink?"] * 3
    assert source.search_text("ns", questions, Search(depth=10, timeout_s=20)) == [ranking] * 3
    assert len(finds) == 2, "one for all questions"


def test_only_the_texts_of_the_ranking_are_read(
    mongodb: MongodbServer, opens: Opens, finds: list[Any]
) -> None:
    source = opens(mongodb.url())
    ranking = ranking_of(source, depth=1, exclude_ids=["farm/gone"])
    assert texts(ranking) == [(f"farm/{WHEAT}", "hit", "Wheat needs nitrogen.")], "with the title of the hit"
    assert ranking_of(source, filters={"source": "elsewhere"}).hits == ()
    assert [wanted for wanted, _ in finds] == [{"_id": {"$in": [str(WHEAT), WHEAT]}}]


def test_the_field_with_the_ids_may_be_another(mongodb: MongodbServer, opens: Opens) -> None:
    ranking = ranking_of(opens(mongodb.url(), collection="numbered", id="number"))
    assert texts(ranking) == [("farm/7", "", "A hen lays an egg.")], "a list is no id, and 7.0 is 7"


def test_a_numeral_and_a_number_have_their_own_texts_if_the_collection_has_both(
    mongodb: MongodbServer,
) -> None:
    options: Any = {"kind": "mongodb", "url_env": VARIABLE, "database": DATABASE, "collection": "typed"}
    with closing(MongodbCollection(MongodbTexts(**options, text="content"), mongodb.url())) as collection:
        stored = collection.texts([7, "7", 8, "8", 9, "9", 10, "07"], 20, 1_000)
    wanted = {7: "7", "7": "'7'", 8: "8.0", "8": "8.0", 9: "'9'", "9": "'9'"}
    assert {id_: text for id_, (_, text) in stored.items()} == wanted


def test_texts_of_more_bytes_than_an_answer_may_have_are_not_read(
    mongodb: MongodbServer, opens: Opens
) -> None:
    assert len(ranking_of(opens(mongodb.url(), collection="long", max_bytes=6_000)).hits) == 4
    words = (
        f"the address in {VARIABLE} has texts of more than 3,000 bytes: lower max_hits, or raise max_bytes"
    )
    with pytest.raises(InvalidAnswer, match=words):
        ranking_of(opens(mongodb.url(), collection="long", max_bytes=3_000))


@pytest.mark.parametrize("case", ["dead", "silent", "wrong password", "no right"])
def test_a_failure_has_its_reason_and_quotes_nothing_of_the_address(
    mongodb: MongodbServer, opens: Opens, case: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        unreachable, refused = (
            (StoreUnavailable, "be reached within 0.3 s"),
            (Unauthorised, "refuses the login"),
        )
        login, (dead,) = f"mongodb://{USER}:{PASSWORD}@127.0.0.1", free_ports(1)
        address, (failure, words) = {
            "dead": (f"{login}:{dead}", unreachable),
            "silent": (f"{login}:{silent.getsockname()[1]}", unreachable),
            "wrong password": (mongodb.url("wr0ng"), refused),
            "no right": (f"mongodb://127.0.0.1:{mongodb.port}", refused),
        }[case]
        source = opens(address, timeout_s=0.3 if failure is StoreUnavailable else 20.0)
        with pytest.raises(failure, match=f"MongoDB at the address in {VARIABLE} .*{words}") as raised:
            ranking_of(source)
    printed = f"{raised.value!r}{raised.value.__cause__!r}{raised.value.__context__!r}"
    assert not [secret for secret in (PASSWORD, "wr0ng", f"{USER}:") if secret in printed]


def test_the_error_says_that_dns_does_not_find_the_name(opens: Opens) -> None:
    with pytest.raises(StoreUnavailable, match=f"the address in {VARIABLE}: DNS does not find its name"):
        ranking_of(opens("mongodb+srv://nowhere.invalid", timeout_s=20))


def test_a_server_that_hangs_costs_the_time_that_is_left_and_the_next_ranking_has_its_texts(
    mongodb: MongodbServer, opens: Opens
) -> None:
    source = opens(mongodb.url())
    before = ranking_of(source)
    mongodb.pause()
    try:
        with pytest.raises(StageFailure) as raised:
            ranking_of(source, timeout_s=0.5)
    finally:
        mongodb.go_on()
    assert raised.value.reason in ("timeout", "unavailable")
    assert ranking_of(source) == before
