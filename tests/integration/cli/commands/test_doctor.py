"""`chorale doctor`: nothing on a healthy system, and each thing that is made wrong here is found."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from chorale_client.connections.urls import celery_url
from chorale_client.keys import CALLBACKS, OUTBOX, QUARANTINE
from kombu import Exchange, Queue
from redis import Redis
from rich.console import Console

from cli.commands.doctor import Examined, checks, examine, show
from cli.doctor import redis_server
from cli.doctor.audit_trail import schema
from cli.installation import Installation
from config.settings import Settings
from ledger.backlog import publish_outbox_limit
from models.documents import Manifest
from monitoring import checks as monitoring_checks
from monitoring.checks import Finding
from records.audit.outbox import UNREADABLE
from records.database import SCHEMA, open_database, upgrade
from tests.integration.cli.commands.findings import examined, findings, the_finding
from tests.integration.cli.commands.printed import document, output
from tests.support.command_line import Run
from tests.support.servers.database_process import line_of, started
from tests.support.servers.databases import empty_database
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.one_engine import embedded_store

OTHER = Manifest(splitter="whole", language="en", analyser="tests", embedder="another", dimension=4)


@pytest.fixture
def bare(own_redis_server: RedisServer, tmp_path: Path) -> Installation:
    """A Redis that somebody started by hand, and nothing else."""
    return Installation(Settings(home=tmp_path, redis_url=own_redis_server.url), own_redis_server.url)


def test_a_healthy_pipeline_gives_nothing(chorale: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine may stand still for longer.
    monkeypatch.setattr(monitoring_checks, "STALE_S", 60.0)
    report = document(chorale("doctor", "--json"))["checks"]
    wrong = [check for check in report if check["status"] != "well"]
    assert (wrong, len(report)) == ([], len(checks()))
    line = output(chorale("doctor"))
    assert line.endswith(
        f"well · {len(report)} checks, nothing to mend · rights on stores: db.local:read db.local:write"
    )


def test_findings_are_shown_with_what_mends_them_and_exit_code_1(chorale: Run) -> None:
    report = output(chorale("doctor", CHORALE_TOPK="5", CHORALE_LOGLEVEL="INFO"), 1)
    assert "the variable CHORALE_TOPK is no setting" in report
    assert "→ unset it; set CHORALE_LOG_LEVEL instead" in report
    assert f"2 to mend · {len(checks()) - 1} of {len(checks())} checks are well" in report


def test_without_a_redis_the_checks_that_need_one_are_skipped(tmp_path: Path) -> None:
    installation = Installation(Settings(home=tmp_path), None)
    need_redis = ["redis memory", "workers", "generations"]
    results = examined(installation, "redis answers", *need_redis)
    assert [finding.what for finding in results["redis answers"].findings] == [f"nothing runs on {tmp_path}"]
    assert [name for name, result in results.items() if result.skipped] == need_redis

    away = replace(installation, redis_url="redis://:secret@localhost:1/0")
    sentence = "the Redis at redis://***@localhost:1/0 does not answer (Connection refused)"
    assert the_finding(away, "redis answers").what == sentence


def test_an_unexpected_error_of_a_check_is_reported_and_the_other_checks_are_made(bare: Installation) -> None:
    def fails(_: Installation) -> Iterator[Finding]:
        yield Finding("seen before", "do it")
        raise LookupError("no such thing\nand more")

    first, second = examine(bare, {"odd": fails, "redis version": checks()["redis version"]})
    failure = "this check failed: LookupError: no such thing"
    assert [finding.what for finding in first.findings] == ["seen before", failure]
    assert second == Examined("redis version")


def test_each_reason_why_checks_were_skipped_is_printed_once() -> None:
    reasons = {"a": "Redis is away", "b": None, "c": "a login may not", "d": "Redis is away"}
    file = io.StringIO()
    show(Console(file=file, width=80), [Examined(name, skipped=why) for name, why in reasons.items()], [])
    printed = " ".join(file.getvalue().split())
    assert printed.startswith("not looked at: a, d Redis is away not looked at: c a login may not ")


@pytest.mark.parametrize("own_redis_server", [{"maxmemory": "100mb"}], indirect=True)
def test_a_redis_that_forgets_evicts_or_is_full_is_found(
    bare: Installation, own_redis_server: RedisServer
) -> None:
    assert "appendonly no" in the_finding(bare, "redis durability").what
    assert findings(bare, "redis memory") == []
    assert findings(bare, "redis version") == []
    client = own_redis_server.client()
    client.config_set("appendonly", "yes")
    client.config_set("maxmemory-policy", "allkeys-lru")
    assert findings(bare, "redis durability") == []
    assert "allkeys-lru" in the_finding(bare, "redis memory").what
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 1_000)
    assert "of its memory" in the_finding(bare, "redis memory").what


def test_what_was_set_aside_is_found_with_the_first_reasons(
    bare: Installation, own_redis_server: RedisServer
) -> None:
    client = own_redis_server.client()
    assert findings(bare, "quarantine") == []
    ordinary: dict[Any, Any] = {f"z{n}": "no plan" for n in range(9)}
    client.hset(QUARANTINE, mapping=ordinary | {b"\xff\x1b]0;" + b"x" * 120: "not an id"})
    what = the_finding(bare, "quarantine").what
    assert what.startswith("10 malformed entries")
    assert "z0 (no plan); z1 (no plan); z2 (no plan)" in what.replace("'", "")
    assert "z3" not in what
    client.hdel(QUARANTINE, *ordinary)
    what = the_finding(bare, "quarantine").what
    assert (what.isprintable(), "(not an id)" in what, len(what) < 200) == (True, True, True)


def test_missing_workers_and_a_missing_sweeper_are_found(bare: Installation) -> None:
    nobody = [f"nobody works on {queue}" for queue in bare.pipeline.queues]
    assert [finding.what for finding in findings(bare, "workers")] == nobody
    no_process, nobody_sweeps = findings(bare, "sweeper", "sweeping")
    assert no_process.what.startswith("no sweeper process runs:")
    assert nobody_sweeps.what.startswith("nobody sweeps")


def test_a_worker_that_is_not_ready_silent_is_found(
    bare: Installation, own_redis_server: RedisServer
) -> None:
    client = own_redis_server.client()
    now_ms = client.time()[0] * 1000

    def beats(**changes: Any) -> None:
        # No stall of the machine makes it old.
        beat = {
            "at": now_ms + 600_000,
            "ready": True,
            "pid": 1,
            "queues": list(bare.pipeline.queues),
            "wire": 1,
        }
        client.set("chorale:heartbeat:all", json.dumps(beat | changes))

    beats()
    assert findings(bare, "workers") == []
    beats(ready=False)
    not_ready = {f"the worker of {queue} is not ready yet" for queue in bare.pipeline.queues}
    assert {finding.what for finding in findings(bare, "workers")} == not_ready
    beats(at=now_ms - 60_000)
    assert the_finding(bare, "workers").what.startswith("all has given no sign of life for ")


def test_a_long_queue_and_an_outbox_that_nobody_empties_are_found(
    bare: Installation, own_redis_server: RedisServer
) -> None:
    client = own_redis_server.client()
    client.lpush("chorale.bm25", *["{}"] * 100)
    assert findings(bare, "queues", "outbox") == []
    client.lpush("chorale.bm25", "{}")
    assert the_finding(bare, "queues").what == "101 messages wait on chorale.bm25"

    # An entry's id is the millisecond in which it was written: the first of them is of 1970.
    client.xadd(OUTBOX, {"id": "old"}, id="1-0")
    client.xadd(CALLBACKS, {"id": "untold"}, id="1-0")
    client.xadd(UNREADABLE, {"id": "odd"})
    expected = (
        "1 of at most 10,000 ended requests wait for the audit tables, the oldest for ",
        "1 ended requests wait for the tasks that follow them",
        "1 ended requests could not be written",
    )
    for finding, beginning in zip(findings(bare, "outbox"), expected, strict=True):
        assert finding.what.startswith(beginning)

    client.delete(OUTBOX, CALLBACKS, UNREADABLE)
    publish_outbox_limit(client, 4)
    client.xadd(OUTBOX, {"id": "young"})
    assert findings(bare, "outbox") == []
    client.xadd(OUTBOX, {"id": "younger"})
    what = the_finding(bare, "outbox").what
    assert what.startswith("2 of at most 4 ended requests wait for the audit tables")
    assert what.endswith("; further ones wait without their candidates, and then requests are refused")


def test_an_audit_database_that_is_missing_of_another_version_or_none_is_found(bare: Installation) -> None:
    assert "there is no audit database" in the_finding(bare, "audit database").what
    # Looking made no file.
    assert not (bare.settings.home / "audit.db").exists()
    upgrade(bare.settings.audit_database_url)
    assert findings(bare, "audit database") == []
    engine = open_database(bare.settings.audit_database_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {SCHEMA.version_table} SET version_num = '0005'")
    finding = the_finding(bare, "audit database")
    assert f"has schema 0005, and the newest that this version knows is {SCHEMA.newest}" in finding.what
    assert finding.mend.startswith("use the version that wrote it; `chorale sweeper`")
    engine.dispose()
    for file in bare.settings.home.glob("audit.db*"):
        file.write_bytes(b"not a database, but long enough to be looked at" * 100)
    assert "cannot be read" in the_finding(bare, "audit database").what


def test_another_or_a_missing_model_and_unpublished_generations_are_found(
    bare: Installation, own_redis_server: RedisServer, tmp_path: Path
) -> None:
    embedded_store(bare.settings.home / "corpus").create("law", OTHER)
    finding = the_finding(bare, "model")
    assert "'law' was embedded by another model" in finding.what
    assert "`chorale namespaces rebuild law`" in finding.mend
    away = replace(bare, settings=bare.settings.model_copy(update={"embedder": str(tmp_path)}))
    unread = "the encoder 'default' of the namespaces law cannot be read: "
    assert the_finding(away, "model").what.startswith(unread)
    assert "'law' has generation 0, and Redis says none" in the_finding(bare, "generations").what
    own_redis_server.client().set("chorale:generation:law", 0)
    assert findings(bare, "generations") == []


def test_vectors_in_another_precision_are_a_remark_that_names_the_command_which_renews_them(
    bare: Installation,
) -> None:
    model = bare.resources.encoder.embedder
    (other,) = {*model.comparable} - {model.fingerprint}
    embedded_store(bare.settings.home / "corpus").create("law", replace(OTHER, embedder=other))
    finding = the_finding(bare, "model")
    assert (finding.is_remark, "'law' keeps vectors in another precision" in finding.what) == (True, True)
    assert "`chorale namespaces rebuild law`" in finding.mend


def test_a_damaged_index_is_found_by_the_namespace_s_name(bare: Installation) -> None:
    embedded_store(bare.settings.home / "corpus").create("law", OTHER)
    assert findings(bare, "documents") == []
    for file in (bare.settings.home / "corpus" / "lexical").rglob("meta.json"):
        file.write_text("{")
    # Another process than the one that has the index open.
    assert the_finding(replace(bare), "documents").what.startswith("namespace 'law': ")


def test_plain_chords_are_found_with_the_reason(bare: Installation, own_redis_server: RedisServer) -> None:
    assert findings(bare, "chords") == []
    other = own_redis_server.celery_url.replace("virtual_host=0", "virtual_host=1")
    for settings, reason in (
        ({"lean": False}, "several times slower: CHORALE_LEAN is off"),
        ({"broker_url": other}, "another of its databases, than the ledger's"),
    ):
        changed = replace(bare, settings=bare.settings.model_copy(update=settings))
        assert reason in the_finding(changed, "chords").what


def test_foreign_keys_clocks_that_are_apart_and_a_redis_that_is_too_old_are_found(
    bare: Installation, own_redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = own_redis_server.client()
    client.set("chorale:request:1", "ours")
    client.lpush("chorale.bm25", "ours too")
    assert findings(bare, "redis keys", "redis clock", "redis version") == []
    client.set("shop:basket:17", "theirs")
    assert "(1 keys, such as 'shop:basket:17')" in the_finding(bare, "redis keys").what
    now_s = time.time  # the module that the check asks as well
    monkeypatch.setattr(time, "time", lambda: now_s() + 3_650)
    # Some seconds more or less on a busy machine.
    assert "are 3,6" in the_finding(bare, "redis clock").what
    monkeypatch.setattr(redis_server, "OLDEST_VERSION", (99, 0))
    assert the_finding(bare, "redis version").mend == "use 99.0 or newer"


@pytest.fixture(params=["sqlite", "postgresql"])
def audited(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    with empty_database(request.param, tmp_path) as url:
        upgrade(url)
        yield Installation(Settings(home=tmp_path, audit_url=url), None)


@pytest.mark.slow
def test_a_database_that_somebody_holds_is_found_at_once(audited: Installation) -> None:
    assert list(schema(audited)) == []
    with started("hold", audited.settings.audit_database_url) as holder:
        assert line_of(holder) == "locked"
        (finding,) = schema(audited)
        assert "cannot be written" in finding.what
        assert "lock" in finding.what.partition("cannot be written")[2]
    assert list(schema(audited)) == []


def test_queues_and_results_of_a_celery_application_are_no_strangers(
    bare: Installation, redis_client: Redis
) -> None:
    orders = Queue("shop.orders", Exchange("orders", type="topic"), routing_key="order.#")
    with Celery(broker=celery_url(bare.redis_url or ""), set_as_current=False) as app:
        app.send_task("shop.own", queue="shop")
        for result_prefix in ("", "shop:"):
            redis_client.set(f"{result_prefix}celery-task-meta-7", "the result of a task")
            redis_client.set(f"{result_prefix}celery-taskset-meta-7.j", "the result of a group")
        with app.producer_or_acquire() as producer:
            producer.publish({}, exchange=orders.exchange, routing_key="order.paid", declare=[orders])
        prefixed = {"global_keyprefix": "shop:"}
        with Celery(broker=celery_url(bare.redis_url or ""), set_as_current=False) as other:
            other.conf.broker_transport_options = prefixed
            other.send_task("shop.own", queue="prefixed")
        assert findings(bare, "redis keys") == []
        app.send_task("chorale.retrieve", args=["who pays?"], queue="chorale.retrieve", priority=5)
    assert findings(bare, "redis keys") == []
    redis_client.flushdb()
