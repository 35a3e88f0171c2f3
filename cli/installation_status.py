"""An installation at one moment: its workers, queues, breakers, outbox and namespaces."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis

    from cli.installation import Installation
    from ledger.breakers import Breaker


def breaker_fields(breaker: Breaker, now_ms: int) -> dict[str, Any]:
    return {
        "name": breaker.name,
        "state": breaker.state(now_ms),
        "open_for_s": max(0, now_ms - breaker.opened_at_ms) / 1000,
        "tried_again_in_s": max(0, breaker.open_until_ms - now_ms) / 1000,
        "is_probed": breaker.is_probed,
        "failures": breaker.failures,
        "reason": breaker.reason,
    }


def read_status(installation: Installation) -> dict[str, Any]:
    """What `chorale status --json` prints; raises NotRunning, BadIndex (a damaged corpus), RedisError."""
    from chorale_client.keys import WAKEUPS
    from chorale_client.redis_urls import without_password

    from cli.namespace_states import namespace_fields, published
    from ledger.backlog import read_quarantine
    from ledger.outcomes import store_name
    from monitoring.heartbeats import read_heartbeats
    from monitoring.queues import read_queues
    from tasks.registration import make_app

    redis = installation.running_redis()
    resources, settings, pipeline = installation.resources, installation.settings, installation.pipeline
    states = resources.writing_store.namespaces()
    generations = published(installation, [state.name for state in states])
    names = [branch.name for branch in pipeline.branches] + [store_name(name) for name in pipeline.stores]
    look = resources.breakers.read(names)
    workers = read_heartbeats(redis)
    queues = read_queues(redis, pipeline.queues, broker_url=settings.broker_url, workers=workers)
    return {
        "home": str(settings.home),
        "redis": {
            "address": without_password(resources.redis_url),
            "version": str(redis.info("server")["redis_version"]),
        },
        "workers": [
            {name: value for name, value in asdict(worker).items() if name != "about"} for worker in workers
        ],
        "queues": [
            {"queue": name, "length": state.length, "oldest_s": state.age_s, "workers": state.workers}
            for name, state in queues.items()
        ],
        "breakers": [breaker_fields(one, look.now_ms) for one in look.breakers.values()],
        "refusing_for_s": None if look.retry_after_ms is None else look.retry_after_ms / 1000,
        "requests_in_flight": int(redis.zcard(WAKEUPS)),
        "outbox": _outbox_fields(redis),
        "quarantine": asdict(read_quarantine(redis)),
        "chords": "lean" if make_app(resources).fanout.is_lean else "plain",
        "namespaces": [namespace_fields(state, generations.get(state.name)) for state in states],
    }


def _outbox_fields(redis: Redis) -> dict[str, Any]:
    from audit.outbox import UNREADABLE, outbox_state
    from ledger.backlog import read_outbox_bound

    entries, age_s = outbox_state(redis)
    bound = read_outbox_bound(redis)
    return {
        "entries": entries,
        "oldest_s": age_s,
        "limit": bound.entries,
        "refused": bound.refused,
        "unreadable": int(redis.xlen(UNREADABLE)),
    }
