"""A pipeline with a shadow, whose sweeper process and bulk worker are the test's own process."""

from __future__ import annotations

from base64 import b64decode
from functools import partial
from pathlib import Path
from typing import Any, cast

from chorale_client.keys import DURATIONS, METRICS, SERVED
from chorale_client.wire_names import QUEUE_BULK
from pydantic_core import from_json

from config.pipeline_reader import DEFAULT_FILE
from models.tables.audit import RequestRow
from records.audit.drainer import Drainer
from records.audit.queries import show
from records.database import open_database, upgrade
from tasks.sweeping.ended_listeners import listeners, notify
from tasks.sweeping.shadows import Shadows
from tests.support.command_line import in_process
from tests.support.pipelines.one_process import OneProcess

QUESTION = "Who pays for repairs?"
SHADOW = """
[shadow]
a = "{a}"
b = "{b}"
share = 1
"""
"""Each plain request under A is searched under B, too."""


class Shadowed(OneProcess):
    """Redis says that a bulk worker runs."""

    def __enter__(self) -> Shadowed:
        super().__enter__()
        self.redis.set(SERVED + QUEUE_BULK, "1")
        self.index()
        upgrade(self.resources.settings.audit_database_url)
        self.engine = open_database(self.resources.settings.audit_database_url)
        declared = self.resources.pipeline.shadow
        assert declared is not None
        self.declared = declared
        self.shadows = Shadows(self.app, declared, self.engine)
        return self

    def __exit__(self, *error: object) -> None:
        self.engine.dispose()
        super().__exit__(*error)

    def end(self, request_id: str, **options: object) -> None:
        """A request under A is answered, not from the cache, and its rows are written."""
        self.ask(f"{QUESTION} {request_id}", request_id=request_id, configuration=self.declared.a, **options)
        self.write()

    def write(self) -> None:
        hearing = partial(notify, [*listeners(self.resources), self.shadows.ended])
        drainer = Drainer(self.redis, self.engine, keep_texts=True, on_written=hearing)
        while drainer.drain_once(1):
            pass

    def waiting(self) -> int:
        """Messages for the bulk workers, after what is due was sent."""
        self.shadows.tick()
        return int(self.redis.llen(QUEUE_BULK))

    def answer_shadows(self) -> None:
        self.shadows.tick()
        self.work_in_bulk()
        self.write()

    def work_in_bulk(self) -> None:
        """Does what waits for the bulk workers, as Celery would call its tasks there."""
        while (raw := cast("bytes | None", self.redis.rpop(QUEUE_BULK))) is not None:
            message = from_json(raw)
            _, arguments, _ = from_json(b64decode(message["body"]))
            self.app.tasks[message["headers"]["task"]](**arguments)

    def figures_of_callers(self) -> dict[str, Any]:
        """The metrics, and how many times of a branch are known, from which hedges follow."""
        durations = {key.decode(): self.redis.llen(key) for key in self.redis.scan_iter(DURATIONS + "*")}
        return {**durations, METRICS: self.redis.hgetall(METRICS)}

    def row(self, request_id: str) -> RequestRow | None:
        return show(self.engine, request_id)

    def run(self, *arguments: str) -> str:
        called = in_process(*arguments, **self.environment)
        assert called.returncode == 0, called.stderr
        return called.stdout


def with_shadow(folder: Path) -> Path:
    """A pipeline file: what words alone answer to users, all branches answer in the shadow."""
    file = folder / "pipeline.toml"
    file.write_text(
        DEFAULT_FILE.read_text(encoding="utf-8") + SHADOW.format(a="bm25", b="rrf"), encoding="utf-8"
    )
    return file
