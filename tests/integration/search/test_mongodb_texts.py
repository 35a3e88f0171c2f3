"""The texts of a source's hits are in MongoDB: a real server of its protocol, and servers that are dead or silent."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from bson.objectid import ObjectId
from pydantic import ValidationError
from pymongo import monitoring

from models.errors import InvalidAnswer, NotConfigured, StageFailure, StoreUnavailable, Unauthorised
from models.hits import Ranking
from models.source_endpoints import HttpEndpoint, MongodbTexts
from search.engines.http.mongodb_texts import MongodbCollection
from search.engines.http.source import HttpSource
from search.kinds import open_http_source
from search.protocol import Search
from tests.support.servers.mongodb_server import DATABASE, PASSWORD, USER, MongodbServer
from tests.support.servers.own_server import free_ports
from tests.support.servers.search_server import SearchServer, says

VARIABLE = "FARM_MONGODB_URL"
WHEAT = ObjectId("66f0c0ffee0000000000beef")
Opens = Callable[..., HttpSource]


class Finds(monitoring.CommandListener):
    """The commands `find` of this process."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name == "find":
            self.sent.append(event.command)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


FINDS = Finds()
monitoring.register(FINDS)


@pytest.fixture
def finds() -> Finds:
    FINDS.sent.clear()
    return FINDS


@pytest.fixture(scope="module")
def mongodb() -> Iterator[MongodbServer]:
    with MongodbServer() as server:
        server.insert(
            "chunks",
            [
                {"_id": "cows", "content": "A cow drinks eighty litres.", "of": {"title": "Cows"}},
                {"_id": WHEAT, "content": "Wheat needs nitrogen.", "of": {"title": "Wheat"}, "size": 3},
            ],
        )
        numbered: list[dict[str, Any]] = [
            {"number": 7, "content": "A hen lays an egg."},
            {"number": [7, "gone"], "content": "Torn."},
        ]
        server.insert("numbered", numbered)
        server.insert("long", [{"_id": str(number), "content": "x" * 1_000} for number in range(300)])
        yield server


@pytest.fixture(scope="module")
def index() -> Iterator[SearchServer]:
    with SearchServer() as server:
        server.answer = says([{"id": str(WHEAT), "name": "hit"}, {"id": "gone"}, {"id": "cows"}, {"id": 7}])
        yield server


@pytest.fixture
def opens(index: SearchServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    """Opens the source `farm`, whose texts are at this address, with further options of `texts`."""
    made: list[HttpSource] = []

    def open_(address: str, **options: Any) -> HttpSource:
        monkeypatch.setenv(VARIABLE, address)
        texts: Any = {"kind": "mongodb", "url_env": VARIABLE, "database": DATABASE, "collection": "chunks"}
        endpoint = {"url": index.url, "params": {"q": "{question}"}, "id": "id", "title": "name"}
        texts |= {"text": "content", "timeout_s": 20.0, **options}
        made.append(open_http_source("farm", {**endpoint, "texts": texts}))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def found(source: HttpSource, questions: int = 1, **options: Any) -> list[Ranking]:
    search = Search(**{"depth": 10, "timeout_s": 30.0, **options})
    return source.search_text("ns", ["How much does a cow drink?"] * questions, search)


def texts(ranking: Ranking) -> list[tuple[str, str, str]]:
    """Document, title and text of each hit."""
    found = [ranking.texts[hit.passage_id] for hit in ranking.hits]
    return [(one.document_id, one.title, one.text) for one in found]


def test_texts_are_read_by_id_in_one_call_and_hits_without_a_text_are_left_out_and_counted(
    mongodb: MongodbServer, opens: Opens, finds: Finds
) -> None:
    source = opens(mongodb.url(), title="of.title")
    [ranking] = found(source)
    assert texts(ranking) == [
        (f"farm/{WHEAT}", "Wheat", "Wheat needs nitrogen."),
        ("farm/cows", "Cows", "A cow drinks eighty litres."),
    ]
    assert ranking.warnings == (
        "document_missing: farm: 2 of 4 hits have no text in the collection, and are left out",
    )
    [sent] = finds.sent
    assert sent["filter"] == {"_id": {"$in": [str(WHEAT), "gone", "cows", 7, WHEAT]}}
    assert sent["projection"] == {"_id": True, "of.title": True, "content": True}
    assert found(source, questions=3) == [ranking] * 3
    assert len(finds.sent) == 2, "one for all questions"


def test_only_the_texts_of_the_ranking_are_read(mongodb: MongodbServer, opens: Opens, finds: Finds) -> None:
    source = opens(mongodb.url())
    [ranking] = found(source, depth=1, exclude_ids=["farm/gone"])
    assert texts(ranking) == [(f"farm/{WHEAT}", "hit", "Wheat needs nitrogen.")], "with the title of the hit"
    assert finds.sent[0]["filter"] == {"_id": {"$in": [str(WHEAT), WHEAT]}}
    assert found(source, filters={"source": "elsewhere"})[0].hits == ()
    assert len(finds.sent) == 1, "and none for a ranking without hits"


def test_the_field_with_the_ids_may_be_another(mongodb: MongodbServer, opens: Opens) -> None:
    [ranking] = found(opens(mongodb.url(), collection="numbered", id="number"))
    assert texts(ranking) == [("farm/7", "", "A hen lays an egg.")], "a list is no id"


def test_texts_of_more_bytes_than_an_answer_may_have_are_not_read(
    mongodb: MongodbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, mongodb.url())
    declared = MongodbTexts(
        kind="mongodb", url_env=VARIABLE, database=DATABASE, collection="long", text="content", timeout_s=20
    )
    with closing(MongodbCollection(declared, mongodb.url())) as collection:
        wanted = [str(number) for number in range(300)]
        assert len(collection.documents(wanted, 20.0, 400_000)) == 300
        words = f"the address in {VARIABLE} has texts of more than 200,000 bytes: lower max_hits, or raise max_bytes"
        with pytest.raises(InvalidAnswer, match=words):
            collection.documents(wanted, 20.0, 200_000)


@pytest.mark.parametrize("case", ["dead", "silent", "wrong password", "no right"])
def test_a_failure_has_its_reason_and_quotes_nothing_of_the_address(
    mongodb: MongodbServer, opens: Opens, case: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (dead,) = free_ports(1)
        address, failure, words = {
            "dead": (f"mongodb://{USER}:{PASSWORD}@127.0.0.1:{dead}", StoreUnavailable, "cannot be reached"),
            "silent": (
                f"mongodb://{USER}:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}",
                StoreUnavailable,
                "cannot be reached within 0.3 s",
            ),
            "wrong password": (mongodb.url("wr0ng"), Unauthorised, "refuses the login"),
            "no right": (f"mongodb://127.0.0.1:{mongodb.port}", Unauthorised, "refuses the login"),
        }[case]
        source = opens(address, timeout_s=0.3 if "cannot" in words else 20.0)
        with pytest.raises(failure) as raised:
            found(source)
    assert words in str(raised.value)
    assert f"MongoDB at the address in {VARIABLE}" in str(raised.value)
    shown = f"{raised.value!r}{raised.value.__cause__!r}{raised.value.__context__!r}"
    assert not [secret for secret in (PASSWORD, "wr0ng", f"{USER}:") if secret in shown]


def test_a_server_that_hangs_costs_the_time_that_is_left_and_the_next_ranking_has_its_texts(
    mongodb: MongodbServer, opens: Opens
) -> None:
    source = opens(mongodb.url())
    before = found(source)
    mongodb.pause()
    try:
        with pytest.raises(StageFailure) as raised:
            found(source, timeout_s=0.5)
    finally:
        mongodb.go_on()
    assert raised.value.reason in ("timeout", "unavailable")
    assert found(source) == before


@pytest.mark.parametrize("address", ["", "mongodb://farm:se@cret@host", "postgresql://farm:secret@host"])
def test_a_missing_or_wrong_address_is_named_by_its_variable(opens: Opens, address: str) -> None:
    with pytest.raises(NotConfigured, match=VARIABLE) as raised:
        opens(address)
    assert "cret" not in f"{raised.value!r}{raised.value.__cause__!r}"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"kind": "postgresql"}, "Input should be 'mongodb'"),
        (
            {"url_env": "mongodb://farm:secret@host"},
            "the name of an environment variable, never the key itself",
        ),
        ({"text": ""}, "at least 1 character"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(texts: dict[str, Any], words: str) -> None:
    right: Any = {
        "kind": "mongodb",
        "url_env": VARIABLE,
        "database": "farm",
        "collection": "c",
        "text": "content",
    }
    endpoint: Any = {"url": "http://a/", "params": {"q": "{question}"}, "id": "id"}
    assert HttpEndpoint(**endpoint, texts=right).texts
    wrong: Any = {**right, **texts}
    with pytest.raises(ValidationError) as raised:
        HttpEndpoint(**endpoint, texts=wrong)
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)
    with pytest.raises(ValidationError, match="either text, a field of the hits, or texts"):
        HttpEndpoint(**endpoint, texts=right, text="text")
