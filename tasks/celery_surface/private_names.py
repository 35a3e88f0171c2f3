"""Every name of Celery and kombu that is used here and is not in their documentation, and what it is used for.

`tests/architecture/test_private_names.py` fails when an installed version lacks one of them or changes it.  Then read
the new version, adapt the module that uses the name, and write down the new fingerprint.
"""

from __future__ import annotations

from typing import NamedTuple

BINDINGS = "_kombu.binding"
"""What kombu's keys of an exchange's queues begin with."""
KOMBU = "_kombu."
UNACKED = "unacked"
"""What kombu's keys of unacknowledged messages begin with."""


class PrivateName(NamedTuple):
    is_like: str
    """`class`, a value's repr, a signature, or the SHA-256 (12 hex characters) of a function's source: the latter where
    its behaviour matters."""
    used_for: str


PRIVATE_NAMES = {
    "celery.app.amqp:AMQP.Connection": PrivateName(
        "class", "replaced: the connection class of an app (`consuming.AMQP`)"
    ),
    "celery.apps.worker:Worker.install_platform_tweaks": PrivateName(
        "f4df0c2ca8da", "wrapped: installs signal handlers just before the worker connects"
    ),
    "celery.backends.base:Backend.mark_as_failure": PrivateName(
        "d6b5a5b37dfe", "overridden: a part that Celery calls failed is reported to the ledger"
    ),
    "celery.backends.redis:RedisBackend.add_pending_result": PrivateName(
        "a8fb813ac6dd", "overridden: parts leave no subscription"
    ),
    "celery.backends.redis:RedisBackend.apply_chord": PrivateName(
        "4a1df3fa0b01", "overridden: the plan in the ledger holds what the chord expects"
    ),
    "celery.backends.redis:RedisBackend.client": PrivateName(
        "(self)", "the connection pool that the ledger shares"
    ),
    "celery.backends.redis:RedisBackend.on_chord_part_return": PrivateName(
        "ed0b7a2ee79f", "overridden: the join"
    ),
    "celery.backends.redis:RedisBackend.on_task_call": PrivateName(
        "e05185cfafba", "overridden: no subscription before a task is sent"
    ),
    "celery.backends.redis:RedisBackend.remove_pending_result": PrivateName(
        "1b3a7458aab3", "overridden: parts have no subscription"
    ),
    "celery.backends.redis:RedisBackend.set_chord_size": PrivateName(
        "953182a90482", "overridden: the plan in the ledger holds the size"
    ),
    "celery.backends.redis:RedisBackend.store_result": PrivateName(
        "(self, task_id, result, state, traceback=None, request=None, **kwargs)",
        "overridden: parts and callbacks store nothing",
    ),
    "celery.worker.consumer.consumer:Consumer.create_task_handler": PrivateName(
        "292c5a681f10", "wrapped: a message that fails in it is dropped, and the worker goes on"
    ),
    "celery.worker.consumer.consumer:Consumer.ensure_connected": PrivateName(
        "3f79cf3bb6d6", "overridden: shorter waits between attempts to connect"
    ),
    "celery.worker.state:maybe_shutdown": PrivateName(
        "()", "called while connecting: raises if the worker was told to stop"
    ),
    "celery.worker.state:requests": PrivateName("{}", "the ids of the messages that a worker has in hand"),
    "celery.worker.state:should_stop": PrivateName("None", "set to end the worker after the running task"),
    "kombu.asynchronous.hub:Hub._pop_ready": PrivateName(
        "22df33da92f8", "called: takes the callbacks that are ready"
    ),
    "kombu.asynchronous.hub:Hub.create_loop": PrivateName(
        "bc5b3f9d66b9",
        "calls ready callbacks once, then waits for the network: why `Consumer.finish_ready` is there",
    ),
    "kombu.connection:Connection.get_transport_cls": PrivateName(
        "(self)", "overridden: gives `consuming.Transport` for Redis"
    ),
    "kombu.message:Message.reject_log_error": PrivateName(
        "(self, logger, errors, requeue=False)", "called for a message that nobody can read"
    ),
    "kombu.transport.memory:Channel._get": PrivateName(
        "(self, queue, timeout=None)", "called: takes a rendered message off the in-memory transport"
    ),
    "kombu.transport.redis:Channel.QoS": PrivateName("class", "replaced by `unacknowledged.QoS`"),
    "kombu.transport.redis:Channel._brpop_read": PrivateName(
        "c42518699709", "wrapped: what is no JSON is dropped, and the worker goes on"
    ),
    "kombu.transport.redis:Channel._do_restore_message": PrivateName(
        "8b430df94e45", "called with an object that takes its pushes"
    ),
    "kombu.transport.redis:Channel.conn_or_acquire": PrivateName(
        "(self, client=None)", "called: a connection for our scripts"
    ),
    "kombu.transport.redis:Channel.keyprefix_queue": PrivateName("'_kombu.binding.%s'", "BINDINGS"),
    "kombu.transport.redis:Channel.unacked_index_key": PrivateName("'unacked_index'", "UNACKED"),
    "kombu.transport.redis:Channel.unacked_key": PrivateName("'unacked'", "UNACKED"),
    "kombu.transport.redis:Channel.unacked_mutex_key": PrivateName("'unacked_mutex'", "UNACKED"),
    "kombu.transport.redis:QoS.ack": PrivateName("1bc15a4ddf54", "overridden: works though Redis is full"),
    "kombu.transport.redis:QoS.append": PrivateName("35c655f6ecc6", "overridden: works though Redis is full"),
    "kombu.transport.redis:QoS.reject": PrivateName("747a02434344", "overridden: works though Redis is full"),
    "kombu.transport.redis:QoS.restore_by_tag": PrivateName(
        "58e161d81b6f", "overridden: works though Redis is full, and once for several workers"
    ),
    "kombu.transport.redis:QoS.restore_unacked": PrivateName(
        "8954efef014d", "calls `restore_by_tag` for `_delivered` when a worker stops"
    ),
    "kombu.transport.redis:QoS.restore_visible": PrivateName(
        "d4a4a40a3eaf", "overridden: overdue by the clock of Redis"
    ),
    "kombu.transport.redis:Transport.Channel": PrivateName("class", "replaced by `consuming.Channel`"),
    "kombu.transport.virtual.base:Message.__init__": PrivateName("c90d08ccfa2e", "sets `_raw`"),
    "kombu.transport.virtual.base:QoS.__init__": PrivateName(
        "86388d33d7d6", "sets `_delivered` and `_dirty`"
    ),
    "kombu.transport.virtual.base:QoS.ack": PrivateName("0714292b916f", "called: adds to `_dirty`"),
    "kombu.transport.virtual.base:QoS.append": PrivateName("b388f0cd6485", "called: adds to `_delivered`"),
    "kombu.transport.virtual.base:Transport._deliver": PrivateName(
        "799e242f3ec5", "wrapped: a message that cannot be read is dropped, and the worker goes on"
    ),
}
