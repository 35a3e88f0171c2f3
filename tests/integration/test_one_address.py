"""One address of Redis, in redis-py's spelling or Celery's, works in an application, the clients, the commands and the workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from chorale_client import AsyncChorale, Chorale, UnknownRequest
from redis import Redis
from typer.testing import CliRunner

from cli.app import app as command
from config.settings import Settings
from tasks.registration import make_app
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.servers.redis_acl import SecuredRedis
from tests.support.servers.redis_server import RedisServer

IN_TLS = ["ssl_cert_reqs=none", "ssl_cert_reqs=CERT_REQUIRED"]
ON_A_SOCKET = ["unix://{path}?db=2", "redis+socket://{path}"]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def use_client(url: str) -> None:
    client = Chorale(url)
    with pytest.raises(UnknownRequest):
        client.answer("nobody-asked")
    client.close()


def use_client_on_a_loop(url: str) -> None:
    async def ask() -> None:
        async with AsyncChorale(url) as client:
            with pytest.raises(UnknownRequest):
                await client.answer("nobody-asked")

    asyncio.run(ask())


def use_worker(url: str, home: Path) -> None:
    settings = Settings(home=home, redis_url=url)
    resources = Resources(settings, load_pipeline(None), settings.redis_url or "")
    assert resources.redis.ping()
    with make_app(resources) as app:
        assert app.backend.client.ping()
        with app.connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, reraise_as_library_errors=False)
            assert connection.default_channel.client.ping()


def use_application(url: str) -> None:
    """The application of docs/start.md and of the Celery guide."""
    with Celery("shop", broker=url, backend=url, set_as_current=False) as app:
        app.conf.task_routes = {"chorale.retrieve": {"queue": "chorale.retrieve"}}
        sent = app.send_task("chorale.retrieve", args=["bread"])
        assert sent.state == "PENDING"


Environment = Callable[..., dict[str, str]]


@pytest.fixture
def printed_by_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    def env(url: str, *options: str) -> dict[str, str]:
        monkeypatch.setenv("CHORALE_REDIS_URL", url)
        monkeypatch.setenv("CHORALE_HOME", str(tmp_path))
        result = CliRunner().invoke(command, ["env", "--json", *options])
        assert result.exit_code == 0, result.output
        variables: dict[str, str] = json.loads(result.stdout)["environment"]
        return variables

    return env


@pytest.mark.parametrize("options", ["", *IN_TLS])
def test_every_spelling_with_tls_works_everywhere(
    secured: SecuredRedis, printed_by_env: Environment, tmp_path: Path, options: str
) -> None:
    address = secured.url_of("operator").partition("?")[0]
    address += f"?{options}&ssl_ca_certs={secured.ca_file}".replace("?&", "?")

    printed = [printed_by_env(address, *celery)["CHORALE_REDIS_URL"] for celery in ((), ("--celery",))]
    for url in (address, *printed):
        use_client(url)
        use_client_on_a_loop(url)
    use_worker(address, tmp_path)
    for url in (*printed, *([address] if options else [])):
        # Celery demands the option, and the operator may not send requests.
        use_application(url.replace(*_logins(secured)))


def _logins(secured: SecuredRedis) -> tuple[str, str]:
    operator, caller = (secured.url_of(role).partition("@")[0] for role in ("operator", "caller"))
    return operator, caller


@pytest.mark.parametrize("spelling", ON_A_SOCKET)
def test_every_spelling_of_a_unix_socket_works_everywhere(
    server: RedisServer, printed_by_env: Environment, tmp_path: Path, spelling: str
) -> None:
    address = spelling.format(path=server.socket_path)
    for_celery = printed_by_env(address, "--celery")["CHORALE_REDIS_URL"]
    number = 2 if "=2" in spelling else 0

    assert for_celery == f"redis+socket://{server.socket_path}?virtual_host={number}"
    for url in (address, for_celery, printed_by_env(address)["CHORALE_REDIS_URL"]):
        use_client(url)
        use_client_on_a_loop(url)
        use_worker(url, tmp_path)
    with Redis(unix_socket_path=str(server.socket_path), db=number) as redis:
        redis.flushdb()
        use_application(for_celery)
        assert redis.llen("chorale.retrieve") == 1


WRONG = {
    "rediss://:secret@here/0?ssl_cert_reqs=perhaps": "ssl_cert_reqs is one of: none, optional, required, CERT_NONE, ",
    "redis://:secret@here/0?ssl_cert_reqs=none": "ssl_cert_reqs is not an option; there are: db, ",
    "redis://:secret@here/0?colour=red": "colour is not an option; there are: db, username, ",
    "redis://:secret@here/0?db=first": "Invalid value for 'db'",
    "redis+socket:///here?virtual_host=first": "Invalid value for 'db'",
    "redis://me:secret/34@here/0": "in a user or password write / as %2F",
    "sentinel://:secret@here:26379": "in place of Sentinel's, give one address that follows the primary",
    "http://:secret@here": "begins with one of: redis://, rediss://, unix://, redis+socket://",
}


@pytest.mark.parametrize("kind", [Chorale, AsyncChorale])
@pytest.mark.parametrize(("url", "said"), WRONG.items(), ids=WRONG)
def test_a_wrong_address_is_a_value_error_that_names_the_option(kind: Any, url: str, said: str) -> None:
    with pytest.raises(ValueError, match="the address of Redis") as refused:
        kind(url)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
