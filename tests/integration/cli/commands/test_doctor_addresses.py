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

    def process(name: str = "", *, pipeline: str = PIPELINE, host: str = "", **settings: Any) -> Installation:
        file = tmp_path / "pipeline.toml"
        file.write_text(pipeline)
        configured = Settings(home=tmp_path, redis_url=own_redis_server.url, pipeline_file=file, **settings)
        made = Installation(configured, own_redis_server.url)
        about = self_report(made.resources)  # reads the file, which the next process overwrites
        about["host"] = host or about["host"]
        if name:
            queues = [f"chorale.{name}"]
            beat = {"at": 0, "ready": True, "pid": 1, "queues": queues, "wire": 1, "about": about}
            own_redis_server.client().set(f"chorale:heartbeat:{name}", json.dumps(beat))
        return made

    return process


OTHER = "not every process uses the same address for"
OTHER_DATABASE = {"audit_url": "postgresql+psycopg://chorale:opensesame@postgresql/other"}
OTHER_LOGIN = {
    "audit_url": "postgresql://another:opensesame@postgresql/chorale?sslrootcert=/ca.crt",
    "broker_url": "amqp://another:opensesame@rabbitmq/chorale?ssl_ca_certs=/ca.crt",
}
OTHER_HOST = {**OUTSIDE, "broker_url": "amqp://ada:opensesame@mq.example/other"}
OTHER_NAMES = PIPELINE.replace(
    'url = "http://elasticsearch:9200"', 'url = "https://search.example:443", ca_file = "/home/ada/ca.crt"'
).replace(
    'url = "http://weaviate:8080", grpc_port = 50051',
    'url = "https://vectors.example", grpc_host = "grpc.example", grpc_port = 443',
)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "another database of the audit trail": (
        OTHER_DATABASE, {},
        f"{OTHER} the audit trail: bm25: postgresql://postgresql/chorale; index: postgresql://postgresql/other",
        "CHORALE_AUDIT_URL",
    ),
    "documents in a file": (
        {"documents_url": "sqlite:////var/documents.db"}, {},
        f"{OTHER} the documents' database: bm25: postgresql://postgresql/chorale; index: sqlite:////var/documents.db",
        "CHORALE_DOCUMENTS_URL",
    ),
    "no broker": (
        {"broker_url": None}, {},
        f"{OTHER} the broker: bm25: amqp://rabbitmq/chorale; index: the ledger's Redis",
        "CHORALE_BROKER_URL",
    ),
    "another store": (
        {"pipeline": PIPELINE.replace("//elasticsearch:", "//another:")}, {},
        f"{OTHER} the store texts: bm25: http://elasticsearch:9200; index: http://another:9200",
        "pipeline file",
    ),
    "another virtual host of this program": (
        {}, OTHER_HOST,
        "this program uses amqp://mq.example/other for the broker, and the processes use amqp://rabbitmq/chorale",
        "CHORALE_BROKER_URL",
    ),
    "another declaration of this program": (
        {}, {"pipeline": PIPELINE.replace("weight = 0.4", "weight = 0.5")},
        "bm25, index have another pipeline file than this program",
        "CHORALE_PIPELINE_FILE",
    ),
    "another login, driver or authority": (OTHER_LOGIN, {}, "", ""),
    "names of the same servers outside": ({}, {"pipeline": OTHER_NAMES, **OUTSIDE}, "", ""),
}  # fmt: skip


@pytest.mark.parametrize(("index_settings", "own", "what", "mend"), CASES.values(), ids=CASES)
def test_another_server_is_found_once_with_both_addresses_and_another_name_of_it_is_not(
    start: Start, index_settings: dict[str, Any], own: dict[str, Any], what: str, mend: str
) -> None:
    start("bm25", **INSIDE)
    start("index", **{**INSIDE, **index_settings})
    results = findings(start(**{**INSIDE, **own}), *NAMES)
    assert [finding.what for finding in results] == ([what] if what else [])
    assert all(mend in finding.mend for finding in results)


def test_databases_in_files_are_found_where_processes_run_on_several_hosts(start: Start) -> None:
    for name in ("bm25", "index"):
        start(name, host=f"host-of-{name}", **INSIDE)
    here = start()
    audit, documents = findings(here, "shared databases")
    where = "and processes run on 2 hosts (host-of-bm25, host-of-index)"
    assert audit.what.startswith(f"the audit trail is in a file ({here.settings.home}/audit.db), {where}")
    assert "CHORALE_AUDIT_URL" in audit.mend
    assert documents.what.startswith(
        f"the documents' database is in a file ({here.settings.home}/documents.db)"
    )
    assert "CHORALE_DOCUMENTS_URL" in documents.mend


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
        address = wrong.render_as_string()
        assert finding.what.startswith(f"the documents' database {address} cannot be used: ")
        assert (finding.what.count(reason), "\n" in finding.what) == (1, False)
        assert f"correct CHORALE_{setting.upper()}" in finding.mend
        assert results["generations"].skipped == "the documents cannot be read: see the finding above"
