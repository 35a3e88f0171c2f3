"""What a process reports with its heartbeat, for `chorale doctor` to compare: versions, settings, Celery's settings."""

from __future__ import annotations

import hashlib
import platform
import socket
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeVar

from config.addresses import server_of
from config.declarations import BranchDeclaration, Pipeline, StoreDeclaration
from config.settings import Settings
from wiring.resources import Resources

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
        "api_key_env", "password_env",
    }
)  # fmt: skip
"""Options of stores and branches that say how a server is reached, not what is searched."""

CELERY_SETTINGS = (
    "result_backend", "task_acks_late", "accept_content", "task_serializer", "result_serializer",
    "task_ignore_result", "result_backend_thread_safe", "redis_socket_timeout", "worker_disable_prefetch",
    "worker_proc_alive_timeout", "task_create_missing_queues", "worker_send_task_events",
    "worker_deduplicate_successful_tasks",
)  # fmt: skip
TRANSPORT_OPTIONS = (
    "ack_emulation", "visibility_timeout", "unacked_restore_interval", "unacked_restore_throttle",
    "priority_steps", "socket_timeout",
)  # fmt: skip


def self_report(resources: Resources, *, worker: Any = None) -> dict[str, Any]:
    """JSON; `worker` is Celery's WorkController, where the process is one."""
    said: dict[str, Any] = {
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
        conf = worker.app.conf
        options = conf.broker_transport_options
        said["celery"] = {
            **{name: conf[name] for name in CELERY_SETTINGS},
            # The class alone; the address after it may hold a password.
            "result_backend": str(conf.result_backend).partition("+")[0],
            **{name: options[name] for name in TRANSPORT_OPTIONS if name in options},
            "pool": getattr(worker.pool_cls, "__module__", str(worker.pool_cls)).rpartition(".")[2],
            "prefetch": worker.prefetch_multiplier,
        }
    return said


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def shared_settings(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", include=set(SHARED_SETTINGS))


def addresses(resources: Resources) -> dict[str, str]:
    """Addresses of databases, broker and stores, without logins, by what is there."""
    settings = resources.settings
    found = {"the audit trail": server_of(settings.audit_database_url)}
    if resources.has_document_table:
        found["the table of documents"] = server_of(settings.documents_database_url)
    found["the broker"] = server_of(settings.broker_url) if settings.broker_url else "the ledger's Redis"
    for name, declared in resources.pipeline.stores.items():
        if isinstance(url := declared.options.get("url"), str | list):
            found[f"the store {name}"] = ", ".join(map(server_of, [url] if isinstance(url, str) else url))
    return found


def pipeline_fingerprint(pipeline: Pipeline) -> str:
    """A hash of the declarations, independent of how the file is written and how servers are reached."""
    declared = replace(
        pipeline,
        stores={name: _unconnected(store) for name, store in pipeline.stores.items()},
        branches=tuple(map(_unconnected, pipeline.branches)),
    )
    return hashlib.sha256(repr(declared).encode()).hexdigest()[:16]


def _unconnected(declared: Declaration) -> Declaration:
    kept = {name: value for name, value in declared.options.items() if name not in CONNECTION_OPTIONS}
    return declared.model_copy(update={"options": kept})
