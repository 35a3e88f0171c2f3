"""Redis addresses: each spelling reaches the same server, and passwords are not shown."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import quote

import pytest
from celery import Celery
from chorale_client.connections.urls import (
    address_of,
    broker_tls,
    celery_url,
    is_same_server,
    without_password,
)
from redis.connection import parse_url


@pytest.mark.parametrize(
    ("redis_url", "expected"),
    [
        ("redis://localhost:6379/2", "redis://localhost:6379/2"),
        ("rediss://:pw@host/0", "rediss://:pw@host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=/a.crt", "rediss://host/0?ssl_ca_certs=/a.crt&ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
        ("amqp://me:pw@host/here", "amqp://me:pw@host/here"),
        ("amqps://me:p%40w@host:5671//?ssl_ca_certs=/a.crt", "amqps://me:p%40w@host:5671//"),
        ("unix:///run/redis.sock", "redis+socket:///run/redis.sock?virtual_host=0"),
        ("unix:///run/redis.sock?db=3", "redis+socket:///run/redis.sock?virtual_host=3"),
        ("unix://me:p%40w@/run/redis.sock?db=1", "redis+socket://me:p%40w@/run/redis.sock?virtual_host=1"),
        ("unix:///run/redis.sock?password=p%40w", "redis+socket://:p%40w@/run/redis.sock?virtual_host=0"),
    ],
)
def test_celery_gets_the_address_in_its_own_format(redis_url: str, expected: str) -> None:
    assert celery_url(redis_url) == expected


@pytest.mark.parametrize(
    ("broker_url", "redis_url", "expected"),
    [
        ("redis://host", "redis://host:6379/0", True),
        ("redis://me:p%40w@host/1", "redis://host?username=me&password=p%40w&db=1", True),
        ("redis+socket:///run/redis.sock?virtual_host=1", "unix:///run/redis.sock?db=1", True),
        ("rediss://host?ssl_cert_reqs=CERT_NONE", "rediss://host?ssl_cert_reqs=none", True),
        ("redis://host/1", "redis://host/0", False),
        ("redis://other@host/0", "redis://host/0", False),
        ("rediss://host/0", "redis://host/0", False),
        ("amqp://host", "redis://host", False),
    ],
)
def test_a_broker_is_the_same_redis_however_its_address_is_written(
    broker_url: str, redis_url: str, expected: bool
) -> None:
    assert is_same_server(broker_url, redis_url) is expected


FILES = {"ca_certs": "/a.crt", "certfile": "/b.crt", "keyfile": "/b.key"}
REQUIRED = ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host/0", False),
        ("rediss://host/0", {"ssl_cert_reqs": ssl.CERT_REQUIRED}),
        (
            "rediss://host/0?ssl_ca_certs=%2Fa.crt&ssl_certfile=/b.crt&ssl_keyfile=/b.key",
            {"ssl_cert_reqs": REQUIRED, **{f"ssl_{name}": file for name, file in FILES.items()}},
        ),
        (
            "rediss://host/0?ssl_cert_reqs=none&ssl_check_hostname=false",
            {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False},
        ),
        ("amqp://host//", False),
        ("amqps://me:pw@Host:5671//", {"server_hostname": "host", "cert_reqs": ssl.CERT_REQUIRED}),
        (
            "amqps://host//?ssl_ca_certs=%2Fa.crt&ssl_certfile=/b.crt&ssl_keyfile=/b.key&ssl_cert_reqs=none",
            {"server_hostname": "host", "cert_reqs": REQUIRED, **FILES},
        ),
    ],
)
def test_kombu_gets_the_options_to_verify_a_brokers_certificate(url: str, expected: object) -> None:
    assert broker_tls(url) == expected


@pytest.mark.parametrize("folder", ["/run/plain", "/home/a b/50%/ünï", "/tmp/q?x=1#y"])
def test_every_path_reaches_redis_py_and_celery_unchanged(folder: str) -> None:
    socket = Path(folder) / "redis.sock"
    url = f"unix://{quote(str(socket))}?db=0"
    assert parse_url(url)["path"] == str(socket)

    backend = Celery(backend=celery_url(url), broker="memory://").backend
    assert backend.connparams["path"] == str(socket)
    assert backend.connparams["db"] == 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://user:secret@host:6379/0", "redis://***@host:6379/0"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix://***@/run/redis.sock"),
    ],
)
def test_a_password_is_not_shown(url: str, expected: str) -> None:
    assert without_password(url) == expected


@pytest.mark.parametrize(
    ("url", "variable", "expected"),
    [
        (None, None, "redis://localhost:6379/0"),
        (None, "redis://:secret@127.0.0.1:6380/0", "redis://:secret@127.0.0.1:6380/0"),
        ("redis://elsewhere:6379/2", "redis://:secret@127.0.0.1:6380/0", "redis://elsewhere:6379/2"),
        ("redis+socket:///run/r.sock?virtual_host=3", None, "unix:///run/r.sock?db=3"),
        ("redis+socket://user:pass@/run/r.sock", None, "unix://user:pass@/run/r.sock?db=0"),
        ("rediss://host/0?ssl_cert_reqs=CERT_NONE", None, "rediss://host/0?ssl_cert_reqs=none"),
        (
            "rediss://:p%2Fw@host/0?ssl_cert_reqs=CERT_OPTIONAL&ssl_ca_certs=/a%20b.crt",
            None,
            "rediss://:p%2Fw@host/0?ssl_cert_reqs=optional&ssl_ca_certs=/a+b.crt",
        ),
        ("redis://host?virtual_host=3", None, "redis://host?db=3"),
    ],
)
def test_the_client_takes_every_spelling_and_the_variable_of_chorale_env(
    url: str | None, variable: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is None:
        monkeypatch.delenv("CHORALE_REDIS_URL", raising=False)
    else:
        monkeypatch.setenv("CHORALE_REDIS_URL", variable)
    assert address_of(url) == expected
