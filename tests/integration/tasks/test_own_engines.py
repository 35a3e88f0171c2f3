"""A pipeline of engines of one's own alone: filters that they get, a cache with a declared time, and no complaints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import Answer
from chorale_client.keys import CACHE
from structlog.testing import capture_logs

from cli.commands.doctor import checks, examine
from cli.installation import Installation
from tests.integration.tasks.answers import ids
from tests.support.command_line import in_process
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.search_server import SearchServer, says

STORE = """
[stores.{name}]
kind = "http"
[stores.{name}.options]
url = "{url}/{name}"
method = "POST"
body = {{ q = "{{question}}", k = "{{depth}}", where = "{{filter}}" }}
id = "id"
id_prefix = ""
text = "text"
metadata = {{ lang = "lang" }}
{more}
[branches.{name}]
kind = "http"
group = "{name}"
store = "{name}"
"""
HITS = [
    {"id": "keys", "text": "The renter pays for lost keys.", "lang": "en"},
    {"id": "chiavi", "text": "Chi perde le chiavi paga.", "lang": "it"},
]
TTL_S = 500


@pytest.fixture(scope="module")
def engine() -> Iterator[SearchServer]:
    with SearchServer() as server:
        yield server


@pytest.fixture(scope="module")
def own(engine: SearchServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    file = tmp_path_factory.mktemp("own") / "pipeline.toml"
    stores = {"kept": f"cache_ttl_s = {TTL_S}", "fresh": ""}
    tables = [STORE.format(name=name, url=engine.origin, more=more) for name, more in stores.items()]
    file.write_text("".join(tables))
    with RedisServer() as server, OneProcess(server, pipeline_file=file) as pipeline:
        yield pipeline
        for name in stores:
            pipeline.resources.store(name).close()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _two_hits(engine: SearchServer) -> None:
    engine.answer = says(HITS)
    engine.requests.clear()


def ask(own: OneProcess, question: str, **options: Any) -> Answer:
    return own.ask(question, **{"branches": ["kept"], **options})


def cached(own: OneProcess) -> list[bytes]:
    return list(own.redis.scan_iter(f"{CACHE}answer:*"))


def test_an_engine_gets_the_filters_and_the_depth_of_the_request(
    own: OneProcess, engine: SearchServer
) -> None:
    filters = {"lang": ["en", "fr"], "year": {"gte": 2020, "lt": 2024}, "kind": {"not": "draft"}}
    answer = ask(own, "keys?", filters=filters, depth=7, cache="bypass")
    [sent] = engine.requests
    assert sent.body == {"q": "keys?", "k": 7, "where": filters}
    # The engine alone compares what it was sent; this one finds both hits whatever the filters are.
    assert (answer.status, ids(answer), answer.warnings) == ("complete", ["keys", "chiavi"], ())
    ask(own, "keys?", cache="bypass")
    assert engine.requests[1].body["where"] == {}


def test_a_field_that_a_key_forces_is_never_left_to_the_engine(own: OneProcess, engine: SearchServer) -> None:
    forced = {"owner": {"all": ["acme"]}, "lang": "it"}
    answer = ask(own, "keys?", filters=forced, request_id="t.acme.1", cache="bypass")
    assert (answer.status, answer.hits) == ("complete", ())


def test_hits_of_an_engine_with_a_declared_time_come_from_the_cache_for_that_time(
    own: OneProcess, engine: SearchServer
) -> None:
    options: dict[str, Any] = {"filters": {"lang": "en"}}
    assert not ask(own, "who pays?", **options).cached
    assert len(cached(own)) == 1
    second = ask(own, "who pays?", **options)
    assert (second.cached, ids(second), len(engine.requests)) == (True, ["keys", "chiavi"], 1)
    assert not ask(own, "who pays?", filters={"lang": "it"}).cached
    assert len(cached(own)) == 2
    assert all(0 < own.redis.ttl(key) <= TTL_S for key in cached(own))


def test_no_answer_with_hits_of_an_engine_without_a_declared_time_is_cached(
    own: OneProcess, engine: SearchServer
) -> None:
    for branches in (["fresh"], ["fresh", "kept"]):
        assert not any(ask(own, "what else?", branches=branches).cached for _ in range(2))
    assert len(engine.requests) == 2 + 4


def test_doctor_status_and_log_have_nothing_to_say_of_a_pipeline_of_own_engines_that_works(
    own: OneProcess,
) -> None:
    with capture_logs() as logged:
        answer = ask(own, "all well?", branches=["kept", "fresh"], abstain=None)
    assert [line for line in logged if line["log_level"] in ("error", "warning")] == []
    assert (answer.status, answer.warnings, answer.questions[0].confidence) == ("complete", (), None)
    installation = Installation(own.resources.settings, own.server.url)
    about = {"documents", "model", "generations", "stores"}
    results = examine(installation, {name: check for name, check in checks().items() if name in about})
    for name in own.resources.pipeline.stores:
        installation.resources.store(name).close()  # type: ignore[attr-defined]
    assert {check.name: (check.findings, check.skipped) for check in results} == dict.fromkeys(
        about, ((), None)
    )
    status = json.loads(in_process("status", "--json", **own.environment).stdout)
    assert status["namespaces"] == []
    listed = in_process("namespaces", "list", "--json", **own.environment)
    assert (listed.returncode, json.loads(listed.stdout)) == (
        0,
        {"v": 1, "namespaces": [], "has_more": False},
    )
