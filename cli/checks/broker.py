"""The broker, where it is another server than the ledger's Redis."""

from __future__ import annotations

from collections.abc import Iterator

from cli.checks.finding import Finding
from cli.surroundings import Surroundings


def reachable(around: Surroundings) -> Iterator[Finding]:
    url = around.settings.broker_url
    if url is None:
        return
    from chorale_client.redis_urls import broker_tls, celery_url, without_password
    from kombu import Connection

    from tasks.queues import CONNECT_LIMIT_S

    with Connection(celery_url(url), ssl=broker_tls(url), connect_timeout=CONNECT_LIMIT_S) as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, reraise_as_library_errors=False)
        except (OSError, *connection.connection_errors, *connection.channel_errors) as error:
            yield Finding(
                f"the broker at {without_password(url)} takes nobody in: {type(error).__name__}: {error}",
                "start it, or correct CHORALE_BROKER_URL (user, password, virtual host) for every process",
            )
