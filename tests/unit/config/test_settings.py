"""Settings: values from the environment, refused values, and the generated page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config.settings import Settings, load_settings, unknown_variables
from docs.reference.settings import PAGE, settings_page
from models.errors import WrongDeclaration


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CHORALE_"):
            monkeypatch.delenv(name)


def test_every_setting_has_a_default_also_for_an_empty_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("CHORALE_REDIS_URL", "")
    monkeypatch.setenv("CHORALE_CACHE_TTL_S", "")
    settings = load_settings()
    assert settings.home == Path("/data/chorale")
    assert settings.audit_database_url == "sqlite:////data/chorale/audit.db"
    assert (settings.redis_url, settings.cache_ttl_s) == (None, 3_600)


def test_relative_folders_are_made_absolute_or_do_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.setenv("HOME", "/home/ada")
    assert load_settings().home == Path("/home/ada/.local/share/chorale")
    monkeypatch.setenv("CHORALE_HOME", "kept")
    assert load_settings().home == tmp_path / "kept"


def test_the_threads_of_models_are_the_cores_that_this_process_may_use() -> None:
    if not hasattr(os, "sched_setaffinity"):
        assert load_settings().model_threads == os.cpu_count()
        return
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        assert load_settings().model_threads == 1
    finally:
        os.sched_setaffinity(0, cores)


def refusal(monkeypatch: pytest.MonkeyPatch, **variables: str) -> list[str]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(WrongDeclaration) as error:
        load_settings()
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("CHORALE_LOG_LEVEL", "loud", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("CHORALE_FEEDBACK_ALPHA", "0.4", "greater than or equal to 0.5"),
        ("CHORALE_LEAN", "perhaps", "valid boolean"),
        ("CHORALE_SWEEP_INTERVAL_S", "0.2", "less than or equal to 0.1"),
        ("CHORALE_LANGUAGE", "English", "[a-z]{2}"),
        ("CHORALE_REDIS_URL", "localhost:6379", "redis://, rediss://, unix://"),
        ("CHORALE_BROKER_URL", "kafka://here", "amqp://"),
        ("CHORALE_AUDIT_URL", "mysql://here", "sqlite://, postgresql://"),
        ("CHORALE_DATABASE_URL", "sqlite:////data/all.db", "postgresql://"),
        *(
            ("CHORALE_CELLS", cells, "cells look like a=redis://…,b=redis://…")
            for cells in ("a", "A=redis://here", "a=")
        ),
        ("CHORALE_CELLS", "a=redis://here,a=redis://there", "each with another name"),
        ("CHORALE_CELLS", "a=amqp://here", "redis://, rediss://, unix://"),
        ("CHORALE_WORKER_PROCESSES", "bm25", "bm25=2,fusion=2"),
        ("CHORALE_WORKER_PROCESSES", "bm25=-1", "0 to 999"),
    ],
)
def test_a_wrong_value_names_its_variable(
    variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (complaint,) = refusal(monkeypatch, **{variable: value})
    assert complaint.startswith(variable)
    assert says in complaint


def test_cells_have_names_and_addresses_and_their_redis_as_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_CELLS", "a=redis://here:6379/0, b=rediss://me:secret@there/1")
    assert load_settings().cells == {"a": "redis://here:6379/0", "b": "rediss://me:secret@there/1"}
    (complaint,) = refusal(monkeypatch, CHORALE_BROKER_URL="amqp://there")
    assert complaint == "CHORALE_CELLS: the broker of a cell is its Redis: unset CHORALE_BROKER_URL"


def test_the_cell_of_a_redis_is_found_whatever_its_login() -> None:
    settings = Settings(
        cells={"a": "redis://worker:x@a.example:6379/0", "b": "redis://worker:x@b.example:6379/0"}
    )
    assert settings.cell_at("redis://sweeper:y@b.example:6379/0") == "b"
    assert settings.cell_at("redis://b.example") == "b"
    assert settings.cell_at("redis://sweeper:y@b.example:6379/1") is None


def test_every_wrong_variable_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints = refusal(monkeypatch, CHORALE_LEAN="perhaps", CHORALE_DRAIN="perhaps")
    assert {line.partition("=")[0] for line in complaints} == {"CHORALE_LEAN", "CHORALE_DRAIN"}


@pytest.mark.parametrize("secret", ["too short", "whsec_no+base64+at+all!"])
def test_a_useless_secret_is_refused_and_not_quoted(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    complaints = str(refusal(monkeypatch, CHORALE_WEBHOOK_SECRET=secret))
    assert "CHORALE_WEBHOOK_SECRET: " in complaints
    assert secret not in complaints


UNENCODED = (
    "{scheme}me:open/sesame@here{end}",
    "{scheme}me:12/sesame@here{end}",
    "{scheme}me:open#sesame@here{end}",
    "{scheme}me:12?sesame@here{end}",
    "{scheme}me:sesame@here:54x{end}",
    "{scheme}me:sesame@here:66666{end}",
)
WRONG_ADDRESSES = [
    ("CHORALE_REDIS_URL", "http://user:opensesame@here", "begins with one of"),
    *[("CHORALE_REDIS_URL", url.format(scheme="redis://", end="/0"), "/ as %2F") for url in UNENCODED],
    ("CHORALE_REDIS_URL", "unix://me:open/sesame@/run/redis.sock", "/ as %2F"),
    ("CHORALE_REDIS_URL", "rediss://me:sesame@here/sesame", "the database of a Redis, is a number"),
    ("CHORALE_REDIS_URL", "redis://me:sesame@here/0?colour=sesame", "colour is not an option"),
    (
        "CHORALE_REDIS_URL",
        "redis://me:sesame@here/0?socket_timeout=sesame",
        "Invalid value for 'socket_timeout'",
    ),
    (
        "CHORALE_REDIS_URL",
        "rediss://me:sesame@here/0?ssl_cert_reqs=sesame",
        "ssl_cert_reqs is one of: none, ",
    ),
    ("CHORALE_REDIS_URL", "sentinel://:sesame@here:26379", "give one address that follows the primary"),
    ("CHORALE_BROKER_URL", "sentinel://:sesame@here:26379", "give one address that follows the primary"),
    *[("CHORALE_BROKER_URL", url.format(scheme="amqps://", end="//"), "@ as %40") for url in UNENCODED],
    ("CHORALE_BROKER_URL", "redis://me:sesame@here/sesame", "the database of a Redis, is a number"),
    *[
        (variable, url, "a port")
        for variable in ("CHORALE_AUDIT_URL", "CHORALE_DATABASE_URL", "CHORALE_DOCUMENTS_URL")
        for url in (
            "postgresql+psycopg://me:sesame@here:54x/rv",
            "postgresql+psycopg://me:open@sesame@here/rv",
            "postgresql://me:open@2/sesame@here/rv",
            "postgresql://me:open@2?sesame@here/rv",
        )
    ],
    ("CHORALE_AUDIT_URL", "sqlite://sesame.db", "three or four slashes"),
]


@pytest.mark.parametrize(
    ("addresses", "audit", "documents"),
    [
        ({"database": "postgresql://all/c"}, "postgresql://all/c", "postgresql://all/c"),
        ({"database": "postgresql://all/c", "audit": "sqlite:////a"}, "sqlite:////a", "postgresql://all/c"),
        (
            {"database": "postgresql://all/c", "documents": "sqlite:////d"},
            "postgresql://all/c",
            "sqlite:////d",
        ),
        ({"audit": "postgresql://a/c"}, "postgresql://a/c", "postgresql://a/c"),
        ({}, "sqlite:////home/audit.db", "sqlite:////home/documents.db"),
    ],
)
def test_one_address_of_a_database_serves_what_has_no_other(
    addresses: dict[str, str], audit: str, documents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHORALE_HOME", "/home")
    for name, url in addresses.items():
        monkeypatch.setenv(f"CHORALE_{name.upper()}_URL", url)
    settings = load_settings()
    assert (settings.audit_database_url, settings.documents_database_url) == (audit, documents)


@pytest.mark.parametrize(("variable", "value", "says"), WRONG_ADDRESSES)
def test_the_error_for_a_wrong_address_says_what_to_do_and_hides_the_password(
    variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints = "\n".join(refusal(monkeypatch, **{variable: value}))
    assert complaints.startswith(f"{variable}: ")
    assert says in complaints
    assert "sesame" not in complaints


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CHORALE_REDIS_URL", "unix:///run/redis.sock?db=0"),
        ("CHORALE_BROKER_URL", "unix:///run/redis.sock?db=0"),
        ("CHORALE_BROKER_URL", "amqps://user:word@here//"),
        ("CHORALE_REDIS_URL", "unix://me:w%2Frd@/run/redis.sock?db=0"),
        ("CHORALE_REDIS_URL", "unix:///run/a@b/redis.sock"),
        ("CHORALE_REDIS_URL", "redis://here?username=me&password=w@rd"),
        ("CHORALE_REDIS_URL", "rediss://me:w%2Frd@[::1]:6379/0?ssl_ca_certs=/etc/ssl/our-ca.crt"),
        ("CHORALE_BROKER_URL", "amqps://me:w%23rd@here:5671/chorale?ssl_ca_certs=/etc/ssl/our-ca.crt"),
        ("CHORALE_BROKER_URL", "amqp://me:word@here//;amqp://me:word@there//"),
        ("CHORALE_AUDIT_URL", "postgresql+psycopg://here/chorale"),
        ("CHORALE_AUDIT_URL", "postgresql+psycopg://me:w/r#d?@[::1]:5432/chorale?sslmode=verify-full"),
        ("CHORALE_AUDIT_URL", "postgresql:///chorale?host=/run/postgresql"),
        ("CHORALE_AUDIT_URL", "sqlite:////data/a@b#c?/audit.db"),
    ],
)
def test_addresses_of_every_profile_are_taken(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert getattr(load_settings(), variable.removeprefix("CHORALE_").lower()) == value


def test_processes_are_counted_by_queue_under_short_or_full_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_WORKER_PROCESSES", "bm25=2, chorale.fusion=3,index=0")
    settings = load_settings()
    queues = ("bm25", "fusion", "index", "vector")
    assert [settings.processes(f"chorale.{queue}") for queue in queues] == [2, 3, 0, 1]


def test_a_misspelt_variable_is_reported_with_the_most_similar_setting() -> None:
    names = ["CHORALE_REDIS_ULR", "CHORALE_HOME", "CHORALE_TEST_REDIS_URL", "CHORALE_ZZZZZZ", "PATH"]
    unknown = unknown_variables(dict.fromkeys(names, "x"))
    assert unknown == {"CHORALE_REDIS_ULR": "CHORALE_REDIS_URL", "CHORALE_ZZZZZZ": None}


def test_the_reference_page_is_current_on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("CHORALE_LANGUAGE", "it")
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "run `python -m docs.reference.settings`"


@pytest.mark.parametrize(
    ("celerys", "ours"),
    [
        ("redis+socket:///run/redis.sock?virtual_host=1", "unix:///run/redis.sock?db=1"),
        ("rediss://here/0?ssl_cert_reqs=CERT_REQUIRED", "rediss://here/0?ssl_cert_reqs=required"),
    ],
)
def test_celery_s_spelling_of_a_redis_is_taken_as_the_same_address(
    celerys: str, ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CHORALE_REDIS_URL", "CHORALE_BROKER_URL"):
        monkeypatch.setenv(variable, celerys)
    settings = load_settings()
    assert (settings.redis_url, settings.broker_url) == (ours, ours)
