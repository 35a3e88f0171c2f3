"""What a worker loads before it takes its first message, and the messages of ended requests that it removes from its queue.

Otherwise each of these messages costs a round trip to the ledger, and after an hour without workers these trips would make
every new request late.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from celery import Celery
from chorale_client.default_timeout import publish_timeouts
from chorale_client.keys import OVERLOAD, entry_key
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION, QUEUE_RETRIEVE, Reason
from redis import Redis
from structlog import get_logger

from config.model_declarations import DEFAULT_ENCODER
from inference.protocol import Reranker
from ledger import ledger_scripts
from ledger.backlog import publish_outbox_limit
from models.documents import NamespaceState
from models.errors import BadIndex, ModelMissing, NotConfigured, ServiceError, StageFailure
from monitoring.queues import read_message
from tasks.wiring.resources import Resources

log, backlog_log = get_logger("chorale.worker"), get_logger("chorale.backlog")

AT_ONCE = 1_000
"""Messages read in one trip: about a megabyte."""
MOST_RETAINED = 1_000
"""When it finds this many messages of requests that still wait, the worker stops looking and begins to work."""
MOST_LOST = 20
"""After this many changes of the queue's end in a row, the worker leaves the queue to the workers that serve it."""
LIMIT_S = 30.0
"""Longest delay of a start; a million messages take about twenty seconds."""
WELL_FOR_S, SEEN_WITHIN_S = 0.3, 2.0
"""The sweeper must see the queue without overload for WELL_FOR_S; it looks every quarter of a second."""


def drop_ended(redis: Redis, queue: str) -> int:
    """Remove messages of ended requests from the old end of the queue's list; returns how many.

    `redis` is the server of both ledger and broker.  Messages that belong to no accepted request stay, and so does
    everything after MOST_RETAINED messages of waiting requests.  Raises RedisError.
    """
    scripts = ledger_scripts(redis)
    until_s = time.monotonic() + LIMIT_S
    dropped, retained, lost = 0, 0, 0
    while time.monotonic() < until_s and retained < MOST_RETAINED and lost < MOST_LOST:
        # The oldest message is the last one; `retained` messages before it were seen already.
        seen: list[bytes] = redis.lrange(queue, -(retained + AT_ONCE), -1)  # type: ignore[assignment]
        fresh = seen[: len(seen) - retained]
        if not fresh:
            break
        alive = _still_waited_for(redis, fresh)
        ended = len(fresh) - len(alive)
        if ended:
            keep = [*alive, *seen[len(fresh) :]]
            if not scripts.run("drop", keys=[queue], args=[seen[-1], seen[0], len(seen), *keep]):
                # Another worker has taken a message meanwhile: look again.
                retained, lost = 0, lost + 1
                continue
            dropped, lost = dropped + ended, 0
        retained += len(alive)
    if dropped:
        _wait_until_seen(redis, queue)
        backlog_log.warning("backlog dropped", queue=queue, messages=dropped, kept=retained)
    return dropped


def _wait_until_seen(redis: Redis, queue: str) -> None:
    """Wait until the sweeper has seen that the queue is not overloaded: the removal looked to it like a busy queue."""
    until_s, well_since_s = time.monotonic() + SEEN_WITHIN_S, time.monotonic()
    while (now_s := time.monotonic()) < until_s and now_s - well_since_s < WELL_FOR_S:
        if redis.hexists(OVERLOAD, f"over:{queue}"):
            well_since_s = now_s
        time.sleep(0.05)


def _still_waited_for(redis: Redis, messages: Sequence[bytes]) -> list[bytes]:
    requests = [(read.request_id if (read := read_message(raw)) else "") for raw in messages]
    trip = redis.pipeline(transaction=False)
    for request_id in requests:
        trip.exists(entry_key(request_id))
    return [
        raw
        for raw, request_id, is_in_flight in zip(messages, requests, trip.execute(), strict=True)
        if is_in_flight or not request_id
    ]


AGAIN_S, LONGEST_AGAIN_S = 2.0, 30.0
"""Shortest and longest wait between attempts to reach what is missing, such as a model that is on its way."""
MOST_WARMED = 20
"""The largest namespaces of a store are opened before the first request, and the others by their first one."""
FETCH_AGAIN_S = 60.0
"""Wait between attempts to fetch a reranker's files for its fingerprint, without which answers are not cached."""


def warm(app: Celery, queues: Sequence[str]) -> Sequence[str]:
    """Load what the tasks on these queues need, publish corpus generations that Redis lacks, and drop messages of ended
    requests; returns what is missing, as `missing` does."""
    resources: Resources = app.resources
    branches = [branch for branch in resources.pipeline.branches if branch.queue in queues]
    resources.answered_kinds = {branch.kind for branch in branches}
    absent = missing(resources, queues)
    for what in absent:
        log.error("works without what it needs", queues=list(queues), missing=what)
    for branch in branches:
        _connect(resources, branch.name)
    if QUEUE_RETRIEVE in queues:
        publish_timeouts(resources.redis, resources.pipeline.timeouts_s)
        publish_outbox_limit(resources.redis, resources.settings.outbox_limit)
        for name in resources.pipeline.rerankers:
            threading.Thread(target=_fetch, args=(resources.reranker(name),), name=name, daemon=True).start()
        _publish_generations(resources)
    if resources.settings.broker_url is None:
        for queue in queues:
            drop_ended(resources.redis, queue)
    # The scripts, the connections and the chord's templates.
    resources.redis.ping()
    _ = app.fanout
    return absent


def missing(resources: Resources, queues: Sequence[str]) -> Sequence[str]:
    """Load the models and indexes of these queues; returns why the worker is not ready: a model that is missing, a documents'
    database that cannot be read, or a store that refuses the worker's login.  The call may be repeated."""
    # This counts the documents of all namespaces, which is slow for thousands of them: all that follows takes these states.
    absent, unread, states = [], None, list[NamespaceState]()
    try:
        states = resources.namespaces()
    except StageFailure as error:
        is_named = error.detail.startswith("the documents' database")
        unread = error.detail if is_named else f"the documents' database: {error.detail}"
    try:
        warm_models(resources, queues, states)
    except ModelMissing as error:
        absent.append(error.detail)
    if unread is not None:
        return [*absent, unread]
    stores = {branch.store for branch in resources.pipeline.branches if branch.queue in queues}
    if QUEUE_FUSION in queues:
        stores |= resources.searched_stores
    refusals = ((name, _refusal(resources, name, states)) for name in sorted(stores))
    return absent + [f"the store {name}: {why}" for name, why in refusals if why]


def warm_models(resources: Resources, queues: Sequence[str], states: Sequence[NamespaceState]) -> None:
    """Load the models of these queues and namespaces, each although another is missing.  Raises ModelMissing; the call may be
    repeated."""
    missing = []
    for load in _loads(resources, queues, states):
        try:
            load()
        except ModelMissing as error:
            missing.append(error.detail)
    if missing:
        raise ModelMissing("; ".join(dict.fromkeys(missing)))


def _loads(
    resources: Resources, queues: Sequence[str], states: Sequence[NamespaceState]
) -> Iterator[Callable[[], object]]:
    """One function for each model."""
    if {"passages", "questions"} & resources.needs:
        for name in _used_encoders(resources, states):
            yield partial(_warm_encoder, resources, name)
    for name in _used_rerankers(resources, queues):
        yield partial(_warm_reranker, resources, name)
    if QUEUE_FUSION in queues and resources.settings.context_tokenizer:
        yield partial(resources.count_tokens, "warm")
    if QUEUE_RETRIEVE in queues:
        yield partial(_read_fingerprints, resources)


def _warm_encoder(resources: Resources, name: str) -> None:
    embedder = resources.encoders[name].embedder
    (embedder if "passages" in resources.needs else embedder.questions).warm()
    _ = embedder.comparable


def _read_fingerprints(resources: Resources) -> None:
    for name in resources.pipeline.rerankers:
        # Read beforehand, since weights may be large; the planner reports a missing one.
        with suppress(StageFailure):
            _ = resources.reranker(name).fingerprint
    _ = resources.fingerprints


def _used_encoders(resources: Resources, states: Sequence[NamespaceState]) -> list[str]:
    """The encoders of the branches, and of the namespaces that are there."""
    pipeline, embed = resources.pipeline, {"questions", "passages"}
    used = {name for state in states if state.manifest for name in state.manifest.embedders}
    used |= {
        branch.encoder or DEFAULT_ENCODER for branch in pipeline.branches if embed & pipeline.needs_of(branch)
    }
    return [name for name in resources.encoders.declared if name in used]


def _used_rerankers(resources: Resources, queues: Sequence[str]) -> Iterable[str]:
    """The rerankers that a fusion worker needs, or a bulk worker that fuses shadows."""
    pipeline = resources.pipeline
    if QUEUE_FUSION in queues:
        return pipeline.rerankers
    if QUEUE_BULK in queues and pipeline.shadow is not None:
        reranker = pipeline.configurations[pipeline.shadow.b].reranker
        return [reranker.name] if reranker else []
    return ()


_REFUSED: dict[str, str] = {}
"""Why each reranker was last refused, since the attempts go on for as long as another model is missing."""


def _warm_reranker(resources: Resources, name: str) -> None:
    """A reranker that is refused never loads, and the fused order stands."""
    try:
        resources.reranker(name).warm()
        _REFUSED.pop(name, None)
    except NotConfigured as error:
        if _REFUSED.get(name) != error.detail:
            _REFUSED[name] = error.detail
            log.error("reranker refused", reranker=name, error=error.detail)


def _fetch(reranker: Reranker) -> None:
    """Fetch the files from the hub, in a thread, for the fingerprint that plans name."""
    while True:
        try:
            reranker.fetch()
            _ = reranker.fingerprint
            return
        except NotConfigured:
            return  # the fusion workers say why
        except ModelMissing as error:
            log.error("reranked answers are not cached", error=error.detail)
        time.sleep(FETCH_AGAIN_S)


def warm_again(
    resources: Resources,
    queues: Sequence[str],
    stop: threading.Event,
    *,
    report: Callable[[Sequence[str]], object],
) -> None:
    """Try until `stop` or until nothing is missing; `report` gets what is missing.  Requests are answered meanwhile."""
    wait_s = AGAIN_S
    while not stop.wait(wait_s):
        wait_s = min(2 * wait_s, LONGEST_AGAIN_S)
        for name in _used_rerankers(resources, queues):
            with suppress(StageFailure):
                resources.reranker(name).fetch()
        try:
            absent = missing(resources, queues)
            if not absent and QUEUE_RETRIEVE in queues:
                _publish_generations(resources)
        except Exception as error:
            log.exception("not warmed")
            absent = [f"{type(error).__name__}: {error}"]
        report(absent)
        if not absent:
            log.info("has what it needs now", queues=list(queues))
            return


def _refusal(resources: Resources, name: str, states: Sequence[NamespaceState]) -> str | None:
    """Warm a store; returns why it refuses the worker's login.  Neither an unreachable store nor a damaged namespace stops the
    worker: each request asks again, and its answer names the reason."""
    store = resources.store(name)
    namespaces: Sequence[str | None] = [None]
    if name in resources.written_stores:
        largest = sorted(states, key=lambda state: -state.passages)[:MOST_WARMED]
        # The largest one is opened last, so that the store closes it last.
        namespaces = [state.name for state in reversed(largest)]
    for namespace in namespaces:
        try:
            (store if namespace is None else resources.serving(name, namespace)).warm(namespace)
        except StageFailure as error:
            log.error("not loaded", store=name, namespace=namespace, reason=error.reason, error=error.detail)
            if not isinstance(error, BadIndex):
                # Each further namespace would delay the start as long again.
                return error.detail if error.reason == Reason.UNAUTHORISED else None
    return None


def _publish_generations(resources: Resources) -> None:
    """Publish the corpus generations that Redis lacks."""
    for state in _namespaces(resources):
        if resources.generations.publish(state.name, state.generation) > state.generation:
            _rise_beyond(resources, state.name)


def _rise_beyond(resources: Resources, namespace: str) -> None:
    """Raise the generation of a restored corpus above the published one; before that, no answer of it is cached."""
    try:
        resources.generations.rise_beyond(namespace)
        resources.generations.publish(namespace, resources.documents.generation(namespace))
    except ServiceError as error:
        log.error("generation not raised", namespace=namespace, error=str(error))


def _connect(resources: Resources, branch: str) -> None:
    """Make the client of the branch's language model, which takes a second."""
    options = resources.generators.options(branch)
    if options is not None and options.calls_model:
        try:
            resources.generators.of(branch)
        except NotConfigured as error:
            log.error("works without its language model", branch=branch, error=error.detail)


def _namespaces(resources: Resources) -> Sequence[NamespaceState]:
    try:
        return resources.namespaces()
    except StageFailure as error:
        log.error("no namespace can be read", reason=error.reason, error=error.detail)
        return ()


THRESHOLDS = 50_000, 20, 20
"""Python's own are 700, 10, 10: the lists of one branch's answer alone set off several collections."""


def collect_seldom() -> None:
    """Call this when the process is warm: modules, models and indexes are not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
