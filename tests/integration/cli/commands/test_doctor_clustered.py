"""`chorale doctor` and the servers of a clustered installation: nothing where they answer, and what is made wrong here is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from cli.commands.status import read_status
from cli.installation import Installation
from config.settings import Settings
from models.errors import NotConfigured
from search.protocol import Engine
from tests.integration.cli.commands.findings import findings, the_finding
from tests.support.models.tiny_cross_encoder import write_tiny_cross_encoder
from tests.support.servers.chat_server import ChatServer
from tests.support.servers.chat_server import sends as refuses
from tests.support.servers.elasticsearch_server import PRODUCT, Impostor, address, corner
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.servers.search_server import SearchServer, says
from tests.support.servers.services import need
from tests.support.servers.weaviate_server import WeaviateServer

KEYS = {
    "TEXTS_PASSWORD": "opensesame-1",
    "VECTORS_KEY": "opensesame-2",
    "MODEL_KEY": "opensesame-3",
    "WIKI_KEY": "opensesame-4",
}
PIPELINE = """
[stores.texts]
kind = "elasticsearch"
options = {{ url = "{texts}", prefix = "{prefix}", username = "elastic", password_env = "TEXTS_PASSWORD" }}

[stores.vectors]
kind = "weaviate"
options = {{ url = "{vectors}", grpc_port = {grpc_port}, api_key_env = "VECTORS_KEY" }}

[stores.wiki]
kind = "http"
options = {{ url = "{wiki}?q={{question}}", id = "id", api_key_env = "WIKI_KEY", namespaces = ["theirs"] }}

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "texts"
queue = "chorale.all"

[branches.wiki]
kind = "http"
group = "wiki"
store = "wiki"
queue = "chorale.all"

[branches.vector]
kind = "vector"
group = "dense"
store = "vectors"
queue = "chorale.all"

[branches.hyde]
kind = "hyde"
group = "dense"
store = "vectors"
queue = "chorale.all"
options = {{ generator = "openai", url = "{model}", model = "small", api_key_env = "MODEL_KEY", fallback = "none" }}

[rerankers.tiny]
model = "{reranker}"
max_pieces = 32

[configurations.rrf]
method = "rrf"
reranker = "tiny"
timeout_s = 8.0
"""
Declare = Callable[..., Installation]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The lines of the pipeline file for each server.  `chat` is a language model, `search` is the search of a wiki."""
    with ExitStack() as opened:
        keys = opened.enter_context(pytest.MonkeyPatch.context())
        for name, key in KEYS.items():
            keys.setenv(name, key)
        prefix = opened.enter_context(corner())
        weaviate = opened.enter_context(WeaviateServer(key=KEYS["VECTORS_KEY"])).endpoint()
        chat = opened.enter_context(ChatServer())
        search = opened.enter_context(SearchServer())
        search.answer = says([{"id": 1}])
        yield {
            "texts": address(),
            "prefix": prefix,
            "vectors": weaviate.url,
            "grpc_port": weaviate.grpc_port,
            "model": chat.url,
            "chat": chat,
            "wiki": search.url,
            "search": search,
            "reranker": write_tiny_cross_encoder(tmp_path_factory.mktemp("reranker")),
        }


@pytest.fixture
def changed(servers: dict[str, Any], tmp_path: Path, own_redis_server: RedisServer) -> Iterator[Declare]:
    """The same declaration with other values in it."""
    made: list[Installation] = []

    def declare(**values: Any) -> Installation:
        file = tmp_path / "pipeline.toml"
        file.write_text(PIPELINE.format(**{**servers, **values}))
        settings = Settings(home=tmp_path, redis_url=own_redis_server.url, pipeline_file=file)
        made.append(Installation(settings, own_redis_server.url))
        return made[-1]

    yield declare
    for installation in made:
        for name in installation.pipeline.stores:
            with suppress(NotConfigured):
                cast("Engine", installation.resources.store(name)).close()
        installation.resources.documents.close()


def test_servers_that_answer_give_nothing(changed: Declare, servers: dict[str, Any]) -> None:
    installation = changed()
    assert findings(installation, "stores", "language models", "language models' time", "rerankers") == []
    assert {one.headers["authorization"] for one in servers["search"].requests} == {"Bearer opensesame-4"}
    assert "db.wiki:read" in installation.pipeline.capabilities


@pytest.mark.parametrize(
    ("server", "variable", "check", "where"),
    [
        ("texts", "TEXTS_PASSWORD", "stores", "store 'texts'"),
        ("vectors", "VECTORS_KEY", "stores", "store 'vectors'"),
        ("wiki", "WIKI_KEY", "stores", "store 'wiki'"),
        ("model", "MODEL_KEY", "language models", "the language model of hyde"),
    ],
    ids=["elasticsearch", "weaviate", "search over HTTP", "language model"],
)
def test_an_empty_variable_and_a_server_that_cannot_be_reached_are_found_by_name(
    changed: Declare, monkeypatch: pytest.MonkeyPatch, server: str, variable: str, check: str, where: str
) -> None:
    address = f"127.0.0.1:{free_port()}"
    away = the_finding(changed(**{server: f"http://{address}"}), check)
    assert away.what.startswith(f"{where} (unavailable)")
    assert address in away.what

    monkeypatch.setenv(variable, "")
    keyless = the_finding(changed(), check)
    assert keyless.what.startswith(f"{where} (not_configured)")
    assert f"the variable {variable}" in keyless.what
    assert "is not set" in keyless.what
    assert keyless.mend.startswith("give it what it names, to the workers too")


def test_a_password_that_elasticsearch_refuses_is_found(changed: Declare) -> None:
    with Impostor(lambda *_: (401, b'{"error": "no", "status": 401}', PRODUCT)) as guarded:
        finding = the_finding(changed(texts=guarded.url), "stores")
    assert finding.what.startswith(f"store 'texts' (unauthorised): Elasticsearch at {guarded.url}")
    assert "right key" in finding.mend


def test_a_key_that_the_language_model_refuses_is_found(changed: Declare, servers: dict[str, Any]) -> None:
    chat: ChatServer = servers["chat"]
    chat.forget()
    chat.then = [refuses(401)]
    finding = the_finding(changed(), "language models")
    host = chat.url.split("/")[2]
    assert finding.what == f"the language model of hyde (unauthorised): small at {host}: HTTP 401"
    assert "right key" in finding.mend
    # It was shown the key, and once: what is refused is not tried again.
    assert chat.keys == [f"Bearer {KEYS['MODEL_KEY']}"]


def test_a_reranker_s_folder_that_is_missing_or_holds_no_model_is_found(
    changed: Declare, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    what = the_finding(changed(reranker=empty), "rerankers").what
    assert what.startswith(f"the reranker 'tiny' ({empty}) cannot be read: ")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [("nobody:opensesame@", "AccessRefused"), ("guest:opensesame@127.0.0.1:1//", "Connection refused")],
)
def test_a_broker_that_refuses_us_or_is_not_there_is_found(
    own_redis_server: RedisServer, tmp_path: Path, wrong: str, reason: str
) -> None:
    broker = need("rabbitmq", "it is the broker that refuses us")
    host = broker.rpartition("@")[2] if wrong.endswith("@") else ""
    settings = Settings(home=tmp_path, redis_url=own_redis_server.url, broker_url=f"amqp://{wrong}{host}")
    away = Installation(settings, own_redis_server.url)
    finding = the_finding(away, "broker")
    assert finding.what.startswith("the broker at amqp://***@")
    assert reason in finding.what
    assert "CHORALE_BROKER_URL" in finding.mend
    assert {queue["length"] for queue in read_status(away)["queues"]} == {None}
