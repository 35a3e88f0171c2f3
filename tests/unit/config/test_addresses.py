"""The server of an address: equal for two spellings, and without the login."""

from __future__ import annotations

import pytest

from config.addresses import server_of


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("postgresql+psycopg://me:secret@Host:5432/docs?sslmode=require", "postgresql://host:5432/docs"),
        # SQLAlchemy reads a password up to the @, with any characters.
        ("postgresql://me:sec/ret?se#cret@host/docs", "postgresql://host/docs"),
        ("postgresql://me:secret@/docs?host=/run/pg&password=secret", "postgresql:///docs?host=%2Frun%2Fpg"),
        (
            "postgresql://host/docs?options=-csearch_path%3Dlaw",
            "postgresql://host/docs?options=-csearch_path%3Dlaw",
        ),
        ("sqlite+pysqlite:////var/50%#1.db?timeout=5", "sqlite:////var/50%#1.db"),
        ("amqps://me:secret@mq.example:5671/here?ssl_ca_certs=/ca.crt", "amqps://mq.example:5671/here"),
        (
            "redis+socket://me:secret@/run/redis.sock?virtual_host=1",
            "redis+socket:///run/redis.sock?virtual_host=1",
        ),
        ("https://wiki.example/find@once?q={question}", "https://wiki.example/find@once"),
    ],
)
def test_an_address_is_shown_and_compared_without_login_driver_and_tls(url: str, server: str) -> None:
    assert server_of(url) == server
