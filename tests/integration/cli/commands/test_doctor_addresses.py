"""`chorale doctor` and processes that mean other servers than the rest, or than whoever calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from cli.installation import Installation
from config.settings import Settings
from tasks.worker.heartbeat import CONNECTION_OPTIONS, self_report
from tests.integration.cli.commands.findings import examined, findings
from tests.support.pipelines.pipeline import ROOT
from tests.support.servers.redis_server import RedisServer, free_port
from tests.support.servers.services import need

PIPELINE = (ROOT / "config" / "clustered.toml").read_text(encoding="utf-8")
INSIDE = {
    "audit_url": "postgresql+psycopg://chorale:opensesame@postgresql/chorale",
    "broker_url": "amqp://chorale:opensesame@rabbitmq/chorale",
}
OUTSIDE = {
    "audit_url": "postgresql://ada:opensesame@db.example:6432/chorale?sslmode=require",
    "broker_url": "amqps://ada:opensesame@mq.example:5671/chorale?ssl_ca_certs=/home/ada/ca.crt",
}
NAMES = ("same addresses", "same pipeline")
Start = Callable[..., Installation]


@pytest.fixture
def start(tmp_path: Path, own_redis_server: RedisServer) -> Start:
    """A process of this name, as far as its sign of life goes; or without a name, what this program has."""

    def process(name: str = "", *, pipeline: str = PIPELINE, **settings: Any) -> Installation:
        file = tmp_path / "pipeline.toml"
        file.write_text(pipeline)
        given = Settings(home=tmp_path, redis_url=own_redis_server.url, pipeline_file=file, **settings)
        made = Installation(given, own_redis_server.url)
        about = self_report(made.resources)  # reads the file, which the next process overwrites
        if name:
            queues = [f"chorale.{name}"]
            beat = {"at": 0, "ready": True, "pid": 1, "queues": queues, "wire": 1, "about": about}
            own_redis_server.client().set(f"chorale:heartbeat:{name}", json.dumps(beat))
        return made

    return process


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        (
            "audit_url",
            "postgresql+psycopg://chorale:opensesame@postgresql/other",
            "the audit trail: bm25: postgresql://postgresql/chorale; index: postgresql://postgresql/other",
        ),
        (
            "documents_url",
            "sqlite:////var/documents.db",
            "the documents' database: bm25: postgresql://postgresql/chorale; index: sqlite:////var/documents.db",
        ),
        ("broker_url", None, "the broker: bm25: amqp://rabbitmq/chorale; index: the ledger's Redis"),
    ],
    ids=["audit", "documents", "no broker"],
)
def test_a_worker_on_another_server_is_found_once_with_both_addresses(
    start: Start, setting: str, value: str | None, expected: str
) -> None:
    start("bm25", **INSIDE)
    start("index", **{**INSIDE, setting: value})
    (finding,) = findings(start(**INSIDE), *NAMES)
    assert finding.what == f"not every process uses the same address for {expected}"
    assert f"CHORALE_{setting.upper()}" in finding.mend


def test_a_worker_with_another_store_is_found_with_both_addresses(start: Start) -> None:
    start("bm25", **INSIDE)
    start("index", pipeline=PIPELINE.replace("//elasticsearch:", "//another:"), **INSIDE)
    (finding,) = findings(start(**INSIDE), *NAMES)
    addresses = "bm25: http://elasticsearch:9200; index: http://another:9200"
    assert finding.what == f"not every process uses the same address for the store texts: {addresses}"


def test_another_login_driver_or_authority_is_no_other_server(start: Start) -> None:
    start("bm25", **INSIDE)
    login = "another:opensesame@"
    other = {
        "audit_url": f"postgresql://{login}postgresql/chorale?sslrootcert=/ca.crt",
        "broker_url": f"amqp://{login}rabbitmq/chorale?ssl_ca_certs=/ca.crt",
    }
    start("index", **other)
    assert findings(start(**INSIDE), *NAMES) == []


def test_other_names_of_the_same_servers_outside_give_no_finding(start: Start) -> None:
    start("bm25", **INSIDE)
    start("index", **INSIDE)
    secured = 'url = "https://search.example:443", ca_file = "/home/ada/ca.crt"'
    pipeline = PIPELINE.replace('url = "http://elasticsearch:9200"', secured).replace(
        'url = "http://weaviate:8080", grpc_port = 50051',
        'url = "https://vectors.example", grpc_host = "grpc.example", grpc_port = 443',
    )
    assert pipeline.count(".example") == 3
    assert findings(start(pipeline=pipeline, **OUTSIDE), *NAMES) == []


def test_another_virtual_host_of_this_program_is_found(start: Start) -> None:
    start("bm25", **INSIDE)
    other = {**OUTSIDE, "broker_url": "amqp://ada:opensesame@mq.example/other"}
    (finding,) = findings(start(**other), *NAMES)
    ours = "this program uses amqp://mq.example/other for the broker"
    assert finding.what == f"{ours}, and the processes use amqp://rabbitmq/chorale"


def test_another_declaration_is_found_once_for_all_processes(start: Start) -> None:
    for name in ("bm25", "fusion", "index"):
        start(name, **INSIDE)
    heavier = PIPELINE.replace("weight = 0.4", "weight = 0.5")
    (finding,) = findings(start(pipeline=heavier, **INSIDE), *NAMES)
    assert finding.what == "bm25, fusion, index have another pipeline file than this program"


def test_every_connection_option_is_an_option_of_a_store_or_an_endpoint() -> None:
    from tasks.branches.generators import Endpoint
    from tasks.wiring.pipeline import BUILT_IN

    models = [Endpoint, *(kind.options for kind in BUILT_IN.stores.values())]
    fields = {field for model in models for field in model.model_fields}  # type: ignore[union-attr]
    assert fields >= CONNECTION_OPTIONS
    assert {field for field in fields if field.endswith(("_env", "_file"))} <= CONNECTION_OPTIONS


def test_a_documents_database_that_refuses_the_login_is_one_finding(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("ELASTICSEARCH_PASSWORD", "WEAVIATE_API_KEY"):
        monkeypatch.setenv(key, "unused-here")
    url = make_url(need("postgresql", "it refuses the login"))
    wrongs = {
        "password authentication failed": url.set(password="opensesame"),
        'database "nowhere" does not exist': url.set(database="nowhere"),
        "failed to resolve host 'nowhere.invalid'": url.set(host="nowhere.invalid"),
        "Connection refused": url.set(host="127.0.0.1", port=free_port()),
    }
    for (reason, wrong), setting in product(wrongs.items(), ("audit_url", "documents_url")):
        installation = start(**{setting: wrong.render_as_string(hide_password=False)})
        results = examined(installation, "documents", "generations")
        (finding,) = results["documents"].findings
        shown = wrong.render_as_string()
        assert finding.what.startswith(f"the documents' database {shown} cannot be used: ")
        assert (finding.what.count(reason), "\n" in finding.what) == (1, False)
        assert f"correct CHORALE_{setting.upper()}" in finding.mend
        assert results["generations"].skipped == "the documents cannot be read: see the finding above"
