"""A broker over TLS: the login goes to nobody whose certificate is of another name, or not trusted, whoever connects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from chorale_client import Chorale, ServiceUnavailable
from chorale_client.connections.urls import celery_url
from kombu import Connection
from kombu.exceptions import OperationalError

from cli.doctor.servers import broker as broker_findings
from cli.installation import Installation
from config.settings import Settings
from monitoring.queues import read_queues
from tasks.registration import make_app
from tests.support.servers.certificates import Certificate
from tests.support.servers.rabbitmq import own_queues
from tests.support.servers.redis_acl import SecuredRedis, needs_tls
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.servers.tls_proxy import TlsProxy

QUEUE = "chorale.index"
NAMES = {"ours": "IP:127.0.0.1", "evil": "DNS:evil.example"}
AUTHORITIES = ("named in the address", "of the system")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificate]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: Certificate.make(folder, name, of=subject) for name, subject in NAMES.items()}


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[str, Connection]]:
    url = need("rabbitmq", "it is the broker behind TLS")
    with own_queues(url, [QUEUE]) as connection:
        yield url, connection


@pytest.fixture(params=AUTHORITIES)
def around(
    request: pytest.FixtureRequest,
    broker: tuple[str, Connection],
    certificates: dict[str, Certificate],
    own_redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[str], Installation]]:
    """An installation whose broker shows this certificate, which is signed by an authority that it trusts."""
    parts = urlsplit(broker[0])
    with ExitStack() as opened:

        def behind(name: str) -> Installation:
            certificate = certificates[name]
            proxy = opened.enter_context(TlsProxy((parts.hostname or "", parts.port or 5672), certificate))
            options = ""
            if request.param == AUTHORITIES[0]:
                options = f"?ssl_ca_certs={certificate.file}"
            else:
                monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
            login = parts.netloc.rpartition("@")[0]
            url = f"amqps://{login}@127.0.0.1:{proxy.port}{parts.path}{options}"
            settings = Settings(home=tmp_path, redis_url=own_redis_server.url, broker_url=url)
            return Installation(settings, own_redis_server.url)

        yield behind


def waiting(around: Installation) -> int | None:
    queue = read_queues(around.running_redis(), [QUEUE], broker_url=around.settings.broker_url)[QUEUE]
    return queue.length


def hand_in(around: Installation) -> str:
    client = Chorale(str(around.redis_url), broker_url=around.settings.broker_url)
    return client.upsert("shop", [{"id": "teapot", "text": "A pot for tea."}])


def connect(around: Installation) -> Any:
    """As a worker does."""
    with make_app(around.resources).connection_for_read() as connection:
        return connection.ensure_connection(max_retries=1, interval_start=0, reraise_as_library_errors=False)


def test_everybody_reaches_a_broker_whose_certificate_has_its_name(
    around: Callable[[str], Installation], broker: tuple[str, Connection]
) -> None:
    right = around("ours")
    assert connect(right)
    assert list(broker_findings(right)) == []
    with broker[1].channel() as channel:
        channel.queue_delete(QUEUE)
    assert hand_in(right)
    assert waiting(right) == 1


def test_nobody_logs_in_to_a_broker_whose_certificate_has_another_name(
    around: Callable[[str], Installation],
) -> None:
    wrong = around("evil")
    with pytest.raises(OSError, match=r"certificate is not valid for '127\.0\.0\.1'"):
        connect(wrong)
    with pytest.raises(ServiceUnavailable, match="certificate is not valid"):
        hand_in(wrong)
    (finding,) = broker_findings(wrong)
    assert "certificate is not valid for '127.0.0.1'" in finding.what
    assert waiting(wrong) is None


def test_kombu_logs_in_to_no_redis_whose_certificate_is_not_trusted() -> None:
    needs_tls()
    with SecuredRedis() as secured:
        trusting, distrusting = celery_url(secured.url), celery_url(secured.url.partition("?")[0])
        with Connection(trusting) as connection:
            assert connection.ensure_connection(max_retries=1, interval_start=0)
        with Connection(distrusting) as connection, pytest.raises(OperationalError, match="certificate"):
            connection.ensure_connection(max_retries=1, interval_start=0)
