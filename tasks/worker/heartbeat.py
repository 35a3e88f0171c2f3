"""A worker's heartbeat in Redis, which the supervisor and `chorale status` read, and what a process reports of itself with it:
versions, settings and options, for `chorale doctor` to compare.

It stops when a task runs too long, so that a hung worker looks like a dead one and is restarted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeVar

from celery import signals
from chorale_client.keys import HEARTBEAT, SERVED
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION, WIRE_VERSION
from redis import Redis
from redis.exceptions import RedisError

from config.addresses import server_of
from config.declarations import BranchDeclaration, Pipeline, StoreDeclaration
from config.model_declarations import EndpointEncoder
from config.redis_client import redis_ms
from config.settings import Settings
from models.duty import Duty
from tasks.celery_internals.event_sender import ids_in_progress
from tasks.wiring.resources import Resources

EVERY_S = 1.0
TTL_S = 10
MOST_CHARACTERS = 500
"""Of each reason why a process is not ready."""
HUNG_AFTER_S = 60.0
"""No part of a request takes this long: its own limits end it earlier."""


class Heartbeat(Duty):
    """Writes the heartbeat from a thread until `stop`; `ready` becomes true when models and indexes are warm."""

    failing = "no heartbeat is written"
    expected = (*Duty.expected, RedisError)

    def __init__(
        self,
        client: Redis,
        name: str,
        queues: Sequence[str],
        *,
        hung_after_s: float | None,
        keep: Callable[[], object] = lambda: None,
    ) -> None:
        """`keep` is called with each heartbeat."""
        self._client = client
        self._keep = keep
        self._key = HEARTBEAT + name
        self._queues = list(queues)
        self._hung_after_s = hung_after_s
        self._busy_since_s: float | None = None
        self._tasks = 0
        """The number of tasks in hand.  A worker takes several messages at once."""
        self._stop = threading.Event()
        self.while_busy: Callable[[], None] = lambda: None
        """Called with each heartbeat while the present task has taken longer than EVERY_S."""
        self.ready = False
        self.missing: Sequence[str] = ()
        """Why the process is not ready."""
        self.about: Mapping[str, Any] = {}
        """`self_report`."""
        self._thread = threading.Thread(target=self.run, args=(self._stop,), name="heartbeat", daemon=True)

    def start(self) -> None:
        signals.task_prerun.connect(self._begin, weak=False)
        signals.task_postrun.connect(self._end, weak=False)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=EVERY_S * 2)
        with contextlib.suppress(RedisError):
            self._client.delete(self._key)

    def beat(self) -> None:
        """Write the heartbeat once, unless the worker is stuck in a task."""
        busy_s = time.monotonic() - self._busy_since_s if self._busy_since_s is not None else 0.0
        if self._hung_after_s is not None and busy_s > self._hung_after_s:
            return
        sign = {
            "at": redis_ms(self._client),
            "ready": self.ready,
            "missing": [text[:MOST_CHARACTERS] for text in self.missing],
            "pid": os.getpid(),
            "queues": self._queues,
            "wire": WIRE_VERSION,
            # Ids of the messages that it has in hand.
            "tasks": ids_in_progress(),
            "about": self.about,
        }
        self._client.set(self._key, json.dumps(sign), ex=TTL_S)
        self._keep()
        for queue in {QUEUE_BULK, QUEUE_FUSION}.intersection(self._queues) if self.ready else ():
            self._client.set(SERVED + queue, 1, ex=TTL_S)
        if busy_s > EVERY_S:
            self.while_busy()

    def tick(self) -> float:
        self.beat()
        return EVERY_S

    def _begin(self, **_: object) -> None:
        self._tasks += 1
        if self._busy_since_s is None:
            self._busy_since_s = time.monotonic()

    def _end(self, **_: object) -> None:
        self._tasks -= 1
        if self._tasks == 0:
            self._busy_since_s = None


Declaration = TypeVar("Declaration", StoreDeclaration, BranchDeclaration)

PACKAGES = ("chorale-client", "celery", "kombu", "redis")

SHARED_SETTINGS = frozenset(
    {
        "embedder", "embedder_revision", "embedder_backend", "embedder_document_precision", "embedder_question_precision",
        "passage_pieces", "near_duplicate_threshold", "feedback_alpha", "feedback_passages",
        "answer_ttl_s", "cache_ttl_s", "lean", "audit_texts", "on_end_queues",
    }
)  # fmt: skip
"""Settings that must be equal in all processes of an installation; none of them holds a password."""

CONNECTION_OPTIONS = frozenset(
    {
        "url", "grpc_host", "grpc_port", "username", "ca_file", "client_cert_file", "client_key_file",
        "api_key_env", "password_env", "url_env",
    }
)  # fmt: skip
"""Options of stores and branches that say how a server is reached, not what is searched."""
_NO_CONNECTION = {"url": "", "api_key_env": None, "ca_file": None}


def self_report(resources: Resources, *, worker: Any = None) -> dict[str, Any]:
    """JSON; `worker` is Celery's WorkController, where the process is one."""
    report: dict[str, Any] = {
        "host": socket.gethostname(),
        "home": str(resources.settings.home),
        "versions": versions(),
        "settings": shared_settings(resources.settings),
        "pipeline": pipeline_fingerprint(resources.pipeline),
        "addresses": addresses(resources),
        # Only if they are known already: a sweeper should not read weights for its report.
        "models": resources.__dict__.get("fingerprints"),
    }
    if worker is not None:
        # What Celery's own command line can change: `celery -A tasks.app worker`.
        report["worker_options"] = {
            "pool": getattr(worker.pool_cls, "__module__", str(worker.pool_cls)).rpartition(".")[2],
            "prefetch": worker.prefetch_multiplier,
            "disable_prefetch": worker.app.conf.worker_disable_prefetch,
            "task_events": worker.app.conf.worker_send_task_events,
        }
    return report


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def shared_settings(settings: Settings) -> dict[str, Any]:
    # The addresses of cells contain passwords, so the report has only the names.
    return {**settings.model_dump(mode="json", include=set(SHARED_SETTINGS)), "cells": sorted(settings.cells)}


def addresses(resources: Resources) -> dict[str, str]:
    """Addresses of databases, broker and stores, without logins, by what is there."""
    settings = resources.settings
    places = {"the audit trail": server_of(settings.audit_database_url)}
    if resources.written_stores and not resources.is_on_one_machine:
        places["the documents' database"] = server_of(settings.documents_database_url)
    places["the broker"] = server_of(settings.broker_url) if settings.broker_url else "the ledger's Redis"
    for name, declared in resources.pipeline.stores.items():
        if isinstance(url := declared.options.get("url"), str | list):
            places[f"the store {name}"] = ", ".join(map(server_of, [url] if isinstance(url, str) else url))
    return places


def pipeline_fingerprint(pipeline: Pipeline) -> str:
    """A hash of the declarations, independent of how the file is written and how servers are reached."""
    declared = replace(
        pipeline,
        stores={name: _unconnected(store) for name, store in pipeline.stores.items()},
        branches=tuple(map(_unconnected, pipeline.branches)),
        encoders={
            name: encoder.model_copy(update=_NO_CONNECTION)
            if isinstance(encoder, EndpointEncoder)
            else encoder
            for name, encoder in pipeline.encoders.items()
        },
    )
    return hashlib.sha256(repr(declared).encode()).hexdigest()[:16]


def _unconnected(declared: Declaration) -> Declaration:
    options = {name: value for name, value in declared.options.items() if name not in CONNECTION_OPTIONS}
    return declared.model_copy(update={"options": options})
