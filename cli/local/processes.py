"""Starts and stops the processes of a pipeline: Redis, where none is configured, and every worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chorale_client.connections.urls import without_password
from chorale_client.wire_names import QUEUE_BULK, QUEUE_FUSION, QUEUE_INDEX, QUEUE_RETRIEVE
from redis.exceptions import RedisError

from cli.local.child_process import Child, Output
from cli.local.home_lock import hold_home
from cli.local.ports import Address
from cli.local.redis_server import prepare_redis
from cli.local.servers import flower_address, flower_child, http_child, with_servers
from cli.local.supervisor import NeverServed, Supervisor
from config.blas_threads import VARIABLES
from config.home import check_home, shared
from config.model_declarations import EndpointEncoder
from config.redis_client import open_redis, refuse_cluster
from config.settings import cores, variables
from models.errors import NotConfigured, ServiceError, WrongDeclaration
from monitoring.heartbeats import RedisHeartbeats

if TYPE_CHECKING:
    from config.declarations import Pipeline
    from config.settings import Settings

REDIS = "redis"
SWEEPER = "sweeper"

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Running:
    """A started pipeline; it stops with its `with` block."""

    supervisor: Supervisor
    redis_url: str


def worker_children(settings: Settings, pipeline: Pipeline, environment: Mapping[str, str]) -> list[Child]:
    """The worker processes of the layout, and one sweeper; all get `environment` and the layout.

    Raises WrongDeclaration for a queue that the pipeline does not have.
    """
    if unknown := sorted(settings.worker_processes.keys() - set(pipeline.queues)):
        raise WrongDeclaration(
            f"CHORALE_WORKER_PROCESSES: no queue {', '.join(queue.removeprefix('chorale.') for queue in unknown)}; "
            f"there are: {', '.join(queue.removeprefix('chorale.') for queue in pipeline.queues)}"
        )

    layout, groups = _groups(settings, pipeline)

    def child(name: str, *arguments: str) -> Child:
        return Child(
            name, (sys.executable, "-m", "cli", *arguments), {**environment, "CHORALE_LAYOUT": layout}
        )

    workers = [
        child(name, "worker", *queues, "--name", name)
        for group, count, queues in groups
        for name in (f"{group}-{number}" for number in range(1, count + 1))
    ]
    return [*workers, child(SWEEPER, "sweeper", "--name", SWEEPER)]


def check_stores(settings: Settings, pipeline: Pipeline) -> None:
    """Raises NotConfigured if a store that the worker processes of the layout open has no address, no key or no client here."""
    served = {queue for queue in pipeline.queues if settings.processes(queue)}
    searched = {branch.store for branch in pipeline.branches if {branch.queue, QUEUE_FUSION} & served}
    for name, declared in pipeline.stores.items():
        kind = pipeline.kinds.stores[declared.kind]
        is_opened = name in searched or (kind.writes and QUEUE_INDEX in served)
        if is_opened and not kind.in_home and kind.documents_of is None:
            try:
                kind.open(name, declared.options).close()
            except Exception as error:  # a package's kind may connect, which its workers try again
                if isinstance(error, NotConfigured):
                    raise


def _groups(settings: Settings, pipeline: Pipeline) -> tuple[str, list[tuple[str, int, list[str]]]]:
    """The layout, and for each kind of worker its name, how many there are, and their queues."""
    apart = {QUEUE_RETRIEVE, QUEUE_INDEX, QUEUE_BULK}
    counted = settings.worker_processes.keys() - apart
    computing = _computing_queues(settings, pipeline)
    answering = [queue for queue in pipeline.queues if queue not in apart]
    layout = settings.layout
    if layout == "auto":
        is_small = cores() <= 2 and computing == answering and not counted
        layout = "replicas" if is_small else "shared"
    together: list[str] = []
    if layout == "replicas":
        # `retrieve` has its own process: while it plans, messages gather in the other queues, and a replica takes more of them
        # at once (with 16 in flight 190 requests a second; 89 where replicas also planned).
        together = answering
    elif layout == "shared":
        kinds = pipeline.kinds.branches
        embedding = {branch.queue for branch in pipeline.branches if "questions" in kinds[branch.kind].needs}
        together = [queue for queue in computing if queue in embedding - counted]
    groups = [
        (queue.removeprefix("chorale."), settings.processes(queue), [queue])
        for queue in pipeline.queues
        if queue not in together
    ]
    if layout == "replicas":
        groups.insert(1, ("replica", settings.replicas, together))
    elif together:
        name = "+".join(queue.removeprefix("chorale.") for queue in together)
        groups.insert(1, (name, 1, together))
    return layout, groups


def _computing_queues(settings: Settings, pipeline: Pipeline) -> list[str]:
    """The queues of branches and of the fusion whose tasks wait for no language model, encoder, reranker or other server.

    A task that waits would hold up the other queues of its process.
    """
    from ledger.caches import NullCache
    from tasks.branches.generators import Generators, generator_name

    kinds = pipeline.kinds
    stores = [kinds.stores[store.kind] for store in pipeline.stores.values()]
    if not all(kind.in_home or kind.documents_of for kind in stores):
        return []
    generating = Generators(pipeline, language=settings.language or "en", shared=NullCache()).fingerprints
    waiting = {QUEUE_RETRIEVE, QUEUE_INDEX, QUEUE_BULK} | ({QUEUE_FUSION} if pipeline.rerankers else set())
    has_endpoint_encoder = any(isinstance(encoder, EndpointEncoder) for encoder in pipeline.encoders.values())
    for branch in pipeline.branches:
        kind = kinds.branches[branch.kind]
        waits = has_endpoint_encoder and {"questions", "passages"} & kind.needs
        if waits or generator_name(branch.name) in generating or not kind.can_batch:
            waiting.add(branch.queue)
    return [queue for queue in pipeline.queues if queue not in waiting]


def worker_environment(redis_url: str, home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that workers get in addition to those of this process (`given`)."""
    paths = [str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        "CHORALE_REDIS_URL": redis_url,
        "CHORALE_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        # glibc otherwise cannot load kglite and scikit-learn, which PyTorch's models need, into one process.
        "GLIBC_TUNABLES": environment.get("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=4096"),
        **{name: environment.get(name, "1") for name in VARIABLES},  # see config.blas_threads
    }


@contextmanager
def running(
    settings: Settings,
    pipeline: Pipeline,
    output: Output,
    *,
    flower_port: int | None = None,
    http: Address | None = None,
    workers: Callable[[Mapping[str, str]], list[Child]] | None = None,
) -> Iterator[Running]:
    """Start Redis, where none is configured, every worker, Flower if it has a port, and the HTTP API if it has an address.

    `workers` makes other processes of the environment than those of the layout.  All of them stop with the block.

    Raises ServiceError: WrongHome, PortInUse, UnsupportedRedis, or because another `chorale up` runs or no Redis can be used.
    """
    home = settings.home
    with hold_home(home):
        check_home(home)
        own_redis: list[Child] = []
        if settings.redis_url is None:
            redis_url, command = prepare_redis(home)
            own_redis = [Child(REDIS, command, level=0, is_needed=True)]
        else:
            redis_url = settings.redis_url
            _check_answers(redis_url)

        environment = worker_environment(redis_url, home, os.environ)
        make_workers = workers or partial(worker_children, settings, pipeline)
        watching = [] if flower_port is None else [flower_child(home, flower_port, environment)]
        watching += [] if http is None else [http_child(http, environment)]
        supervisor = Supervisor(
            [*own_redis, *make_workers(environment), *watching],
            output=output,
            heartbeats=with_servers(
                RedisHeartbeats(redis_url, server=REDIS if own_redis else None),
                http,
                None if flower_port is None else flower_address(flower_port),
            ),
        )
        try:
            with shared(home, os.environ, variables(), redis_url), supervisor:
                yield Running(supervisor, redis_url)
        except NeverServed as error:
            raise ServiceError(
                f"{error}: if another server wrote {home / 'redis'}, put that one on the PATH, or move the folder away "
                "(documents and the audit trail are elsewhere; requests in flight and kept answers are lost)"
            ) from None


def _check_answers(redis_url: str) -> None:
    try:
        with open_redis(redis_url) as client:
            client.ping()
            refuse_cluster(client, redis_url)
    except (RedisError, ValueError) as error:
        raise ServiceError(
            f"The Redis of CHORALE_REDIS_URL, {without_password(redis_url)}, does not answer ({error}); "
            "start it, or `unset CHORALE_REDIS_URL` and chorale starts one itself."
        ) from None
