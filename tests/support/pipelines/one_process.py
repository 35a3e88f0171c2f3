"""A pipeline whose steps the test's own process takes, one after the other: the product's functions and scripts, without a worker."""

from __future__ import annotations

import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from chorale_client import Answer, make_request
from chorale_client.keys import OUTBOX
from chorale_client.wire_names import QUEUE_BULK, QUEUE_INDEX, QUEUE_RETRIEVE
from pydantic_core import from_json

from inference.protocol import Embedder
from monitoring.queues import ListedQueues
from records.audit.drainer import Drainer
from records.database import open_database, upgrade
from tasks.request.batch import make_intake
from tasks.request.composing.ending import FUSION_WORKER, FinishPolicy
from tasks.request.finishing import end_joined
from tasks.request.retrieve import plan_accepted, submit
from tasks.sweeping.admission import Bounds, Judge
from tasks.sweeping.ended_listeners import listeners, notify
from tasks.sweeping.sweeper import Sweeper
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer


class OneProcess(RunningPipeline):
    """Nothing happens to a request until the test calls `work`; an answer is in the cache when `ask` returns."""

    def __init__(self, server: RedisServer, **options: Any) -> None:
        super().__init__(server, queues=[], **options)
        self._sweeper_here = Sweeper(self.resources, self.app.fanout, interval_s=1)

    @classmethod
    @contextmanager
    def with_file(
        cls, text: str, *, embedders: Mapping[str, Embedder] | None = None, **options: Any
    ) -> Iterator[Self]:
        """A pipeline whose file has this text, with a Redis of its own, and with these embedders by the names of their encoders."""
        with tempfile.TemporaryDirectory() as folder, RedisServer() as server:
            file = Path(folder) / "pipeline.toml"
            file.write_text(text, encoding="utf-8")
            with cls(server, pipeline_file=file, **options) as pipeline:
                for name, embedder in (embedders or {}).items():
                    use_embedder(pipeline.resources, embedder, name)
                yield pipeline
                pipeline.resources.writing_store.close()

    def submit(self, text: Any, **options: Any) -> str:
        """Plans a request, whose parts wait on their queues afterwards; returns its id."""
        return submit(self.resources, self.app.fanout, make_request(text, **{"timeout_s": 30, **options}))

    def work(self, *queues: str) -> None:
        """Does what waits on these queues (by default on all of a request's), as one worker of these queues would."""
        served = queues or (*self.resources.pipeline.request_queues, QUEUE_BULK)
        intake = make_intake(self.app, served)
        while messages := [(queue, raw) for queue in served if (raw := self.redis.rpop(queue)) is not None]:
            for queue, raw in messages:
                message: Any = from_json(cast(bytes, raw))
                _, arguments, _ = from_json(b64decode(message["body"]))
                if queue == QUEUE_RETRIEVE:
                    plan_accepted(self.resources, self.app.fanout, arguments["request_id"])
                elif queue == QUEUE_BULK:
                    self.app.tasks[message["headers"]["task"]].run(**arguments)
                elif queue == QUEUE_INDEX:
                    headers = message["headers"]
                    self.app.tasks[headers["task"]].apply(kwargs=arguments, task_id=headers["id"]).get()
                else:
                    intake.take(message, queue, self._not_ours)

    def sweep(self) -> None:
        """Does what is due at once and looks at the queues, as the sweeper would."""
        self._sweeper_here.tick()
        bounds = Bounds(self.resources.settings.admission_length, self.resources.settings.admission_age_s)
        queues = self.resources.pipeline.request_queues
        self._sweeper_here._watch.report(
            ListedQueues(self.redis, queues), Judge(bounds, branch_queues=queues)
        )

    def end_late(self, request_id: str, *, by: FinishPolicy = FUSION_WORKER) -> Answer:
        """Ends a request with what there is, as at its deadline, and empties the queues."""
        entry = self.resources.ledger.join(request_id, force=True)
        assert entry is not None
        end_joined(self.resources, [entry], by=by, joined_s=time.monotonic())
        self.redis.delete(*self.resources.pipeline.request_queues)
        return self.answer(request_id)

    def answer(self, request_id: str) -> Answer:
        """Returns the answer of a request that has ended."""
        return self.client().answer(request_id)

    def ask(self, text: Any, **options: Any) -> Answer:
        """Returns the answer to a request that is planned, searched and fused at once."""
        request_id = self.submit(text, **options)
        self.work()
        return self.answer(request_id)

    def drain(self) -> None:
        """Writes the rows of all ended requests to the audit database, and counts them."""
        url = self.resources.settings.audit_database_url
        upgrade(url)
        engine = open_database(url)
        try:
            drainer = Drainer(
                self.redis, engine, keep_texts=True, on_written=partial(notify, listeners(self.resources))
            )
            while self.redis.xlen(OUTBOX):
                drainer.drain_once(1)
        finally:
            engine.dispose()

    @staticmethod
    def _not_ours(*message: object) -> None:
        raise AssertionError(f"no message of the product: {message}")
