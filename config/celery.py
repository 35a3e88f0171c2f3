"""The Celery app's settings: queues, routes, serialisers and time limits, with their reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chorale_client.connections.urls import broker_tls, celery_url
from chorale_client.keys import UNACKED
from chorale_client.wire_names import QUEUE_BULK, QUEUE_INDEX
from kombu import Exchange, Queue

from config.settings import Settings

BACKEND = "tasks.celery_internals.result_backend:LedgerBackend"
CONSUMER = "tasks.celery_internals.consuming:Consumer"

VISIBILITY_TIMEOUT_S = 60
"""Redis gives a message to another worker after this time, unless its worker renews it
(`tasks.celery_internals.visibility`).  More than the lease of Celery's own chord, which is 21 s."""


def is_redis(broker_url: str) -> bool:
    return broker_url.partition("://")[0] in ("redis", "rediss", "unix", "redis+socket")


def needs_acknowledgement(queues: Iterable[str]) -> bool:
    """Messages of indexing and bulk jobs return to their queue when a worker dies; for lean chords the ledger sends them again."""
    return not {QUEUE_INDEX, QUEUE_BULK}.isdisjoint(queues)


def celery_settings(
    settings: Settings, *, redis_url: str, queues: Iterable[str], acknowledged: bool
) -> dict[str, Any]:
    """Settings for `app.conf.update`; `acknowledged` is for workers (see `needs_acknowledgement`)."""
    # Celery splits `class+scheme` at the first plus, so the socket's scheme must not contain one.
    backend_url = celery_url(redis_url).removeprefix("redis+")
    broker = celery_url(settings.broker_url or redis_url)
    transport: dict[str, Any] = {}
    if is_redis(broker):
        transport = {
            # One list for each queue: without priorities a worker reads one key instead of four.
            "priority_steps": [0],
            # The ledger keeps its messages and sends them again.  Redelivery by the broker takes more than a minute, and
            # loses a message that a dying worker had popped and not yet recorded.
            "ack_emulation": acknowledged,
            # kombu has one set of these keys for all applications on a Redis, and each worker gives back the messages in it
            # after its own `visibility_timeout`.
            "unacked_key": UNACKED,
            "unacked_index_key": f"{UNACKED}_index",
            "unacked_mutex_key": f"{UNACKED}_mutex",
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            # Look for messages to redeliver every 5 s instead of every 100.
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "socket_timeout": settings.redis_socket_timeout_s,
            "socket_connect_timeout": settings.redis_connect_timeout_s,
            "socket_keepalive": True,
            "health_check_interval": 10,
        }
    return {
        "broker_url": broker,
        "broker_use_ssl": broker_tls(settings.broker_url or redis_url),
        "result_backend": f"{BACKEND}+{backend_url}",
        "task_queues": [Queue(name, Exchange(name, type="direct"), routing_key=name) for name in queues],
        # A misspelt queue is an error instead of a list that no worker reads.
        "task_create_missing_queues": False,
        "task_default_queue": "chorale.retrieve",
        # JSON only, so that no message can run code.
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        # The answer is the only result, and the ledger writes it.
        "task_ignore_result": True,
        # Waiting messages stay in the queue, where every worker can take them.
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": False,
        "worker_consumer": CONSUMER,
        # A stopping worker puts unacknowledged messages back.  Without ack_emulation only the worker knows them, at no
        # cost.
        "task_acks_late": True,
        # For pools with processes; `tasks.celery_internals.warm_shutdown` does the same for the solo pool.
        "worker_soft_shutdown_timeout": settings.soft_shutdown_s,
        "worker_deduplicate_successful_tasks": False,
        # A new child may need more than the default 4 s to load its model, and would be killed again and again.
        "worker_proc_alive_timeout": 120,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "worker_hijack_root_logger": False,
        # One connection for all threads instead of dozens.
        "result_backend_thread_safe": True,
        "redis_socket_timeout": settings.redis_socket_timeout_s,
        "redis_socket_connect_timeout": settings.redis_connect_timeout_s,
        # redis-py refuses this option for a unix socket.
        "redis_socket_keepalive": not redis_url.startswith("unix://"),
        "redis_backend_health_check_interval": 10,
        "broker_transport_options": transport,
        "broker_connection_retry_on_startup": True,
        # `Consumer` decides which error replies of Redis count as a lost connection.
        "broker_channel_error_retry": True,
        "broker_pool_acquire_timeout": 1.0,
        # The sweeper retries publishing; a caller's thread must not wait for the broker.
        "task_publish_retry": False,
        # For Flower.  The tasks of a request send none; `tasks.sweeping.request_events` sends those of the whole request.
        "worker_send_task_events": settings.task_events,
        # A command can stop a worker, or name any queue for its reply.
        "worker_enable_remote_control": settings.remote_control,
    }
