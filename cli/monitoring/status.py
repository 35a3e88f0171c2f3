"""An installation at one moment: its workers, queues, breakers, outbox and namespaces."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cli.installation import Installation
    from cli.monitoring.heartbeats import Heartbeat
    from ledger.breakers import Breaker, Look
    from ledger.outbox import OutboxBound
    from models.documents import NamespaceState
    from tasks.sweeping.queues import QueueState


@dataclass(frozen=True, slots=True)
class Status:
    """An installation at one moment."""

    home: str
    redis: str
    """Its address, without a password."""
    redis_version: str
    workers: Sequence[Heartbeat]
    queues: Mapping[str, QueueState]
    look: Look
    """The breakers that are not closed, and whether new requests are refused."""
    in_flight: int
    """Requests that have begun and not ended."""
    outbox_entries: int
    """Ended requests that wait for the audit tables."""
    outbox_age_s: float
    """Age of the oldest of them."""
    outbox_bound: OutboxBound
    unreadable: int
    """Outbox entries that could not be written to the tables; the newest thousand are kept."""
    chords: str
    """`lean` or `plain`."""
    namespaces: Sequence[NamespaceState]
    published: Mapping[str, int]
    """Generations in Redis, by namespace."""

    @property
    def refusing_for_s(self) -> float | None:
        """About how long new requests are still refused; None if they are accepted."""
        return None if self.look.retry_after_ms is None else self.look.retry_after_ms / 1000

    def to_wire(self) -> dict[str, Any]:
        from cli.namespace_states import namespace_fields

        return {
            "home": self.home,
            "redis": {"address": self.redis, "version": self.redis_version},
            "workers": [
                {name: value for name, value in asdict(worker).items() if name != "about"}
                for worker in self.workers
            ],
            "queues": [
                {"queue": name, "length": state.length, "oldest_s": state.age_s, "workers": state.workers}
                for name, state in self.queues.items()
            ],
            "breakers": [breaker_fields(one, self.look.now_ms) for one in self.look.breakers.values()],
            "refusing_for_s": self.refusing_for_s,
            "requests_in_flight": self.in_flight,
            "outbox": {
                "entries": self.outbox_entries,
                "oldest_s": self.outbox_age_s,
                "limit": self.outbox_bound.entries,
                "refused": self.outbox_bound.refused,
                "unreadable": self.unreadable,
            },
            "chords": self.chords,
            "namespaces": [
                namespace_fields(state, self.published.get(state.name)) for state in self.namespaces
            ],
        }


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


def read_status(installation: Installation) -> Status:
    """Raises NotRunning, BadIndex (a damaged corpus), RedisError."""
    from chorale_client.keys import MOMENTS
    from chorale_client.redis_urls import without_password

    from audit.outbox import UNREADABLE, outbox_state
    from cli.monitoring.heartbeats import read_heartbeats
    from cli.monitoring.queues import read_queues
    from cli.namespace_states import published
    from ledger.outbox import read_outbox_bound
    from ledger.outcomes import store_name
    from tasks.registration import make_app

    redis = installation.running_redis()
    resources, settings, pipeline = installation.resources, installation.settings, installation.pipeline
    entries, age_s = outbox_state(redis)
    states = resources.writing_store.namespaces()
    names = [branch.name for branch in pipeline.branches] + [store_name(name) for name in pipeline.stores]
    workers = read_heartbeats(redis)
    return Status(
        home=str(settings.home),
        redis=without_password(resources.redis_url),
        redis_version=str(redis.info("server")["redis_version"]),
        workers=workers,
        queues=read_queues(redis, pipeline.queues, broker_url=settings.broker_url, workers=workers),
        look=resources.breakers.look(names),
        in_flight=int(redis.zcard(MOMENTS)),
        outbox_entries=entries,
        outbox_age_s=age_s,
        outbox_bound=read_outbox_bound(redis),
        unreadable=int(redis.xlen(UNREADABLE)),
        chords="lean" if make_app(resources).fanout.is_lean else "plain",
        namespaces=states,
        published=published(installation, [state.name for state in states]),
    )
