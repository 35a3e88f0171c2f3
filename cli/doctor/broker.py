"""The broker, where it is another server than the ledger's Redis."""

from __future__ import annotations

from collections.abc import Iterator

from cli.doctor.finding import Finding
from cli.installation import Installation
from monitoring.heartbeats import read_heartbeats


def reachable(installation: Installation) -> Iterator[Finding]:
    url = installation.settings.broker_url
    if url is None:
        return
    from chorale_client.redis_urls import broker_tls, celery_url, without_password
    from kombu import Connection

    from monitoring.queues import CONNECT_LIMIT_S

    with Connection(celery_url(url), ssl=broker_tls(url), connect_timeout=CONNECT_LIMIT_S) as connection:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, reraise_as_library_errors=False)
        except (OSError, *connection.connection_errors, *connection.channel_errors) as error:
            yield Finding(
                f"the broker at {without_password(url)} cannot be used: {type(error).__name__}: {error}",
                "start it, or correct CHORALE_BROKER_URL (user, password, virtual host) for every process",
            )


def consumers(installation: Installation) -> Iterator[Finding]:
    """Find queues without a consumer, where the broker counts them: workers on another broker have heartbeats in Redis, too."""
    from chorale_client.publisher import BROKER_ERRORS
    from chorale_client.redis_urls import without_password

    from config.celery import is_redis
    from monitoring.queues import queue_states

    url, redis = installation.settings.broker_url, installation.running_redis()
    if url is None or is_redis(url):
        return
    alive = {queue for worker in read_heartbeats(redis) if worker.is_ready for queue in worker.queues}
    served = [queue for queue in installation.pipeline.queues if queue in alive]
    try:
        states = queue_states(redis, served, broker_url=url)
    except BROKER_ERRORS:
        return  # which `reachable` finds
    if idle := [queue for queue in served if not states[queue].workers]:
        yield Finding(
            f"nobody takes messages of {', '.join(idle)} from the broker at {without_password(url)}, though their "
            "workers give signs of life",
            "set CHORALE_BROKER_URL to the same for every process and this shell, and restart those that differ",
        )
