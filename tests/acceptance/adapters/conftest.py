"""One pipeline for all adapters: `bm25` and `vector`, a branch that raises, one that hangs until its time is over, and one
that takes twenty seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chorale_client.default_timeout import publish_timeouts

from tests.support.pipelines.kinds import kinds_with
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port

PRELOAD = """
import time
from chorale_client.keys import entry_key
from tests.support.pipelines.kinds import declare

def raises(part):
    raise RuntimeError("the disk is on fire")

def hangs(part):
    while part.remaining_s > 0.002 and part.resources.redis.exists(entry_key(part.request.request_id)):
        time.sleep(0.02)
    time.sleep(0.2)
    return []

def late(part):
    time.sleep(20)
    return []

declare(raises=raises, hangs=hangs, late=late)
"""
BRANCHES = {"bm25": "lexical", "vector": "dense", "raises": "other", "hangs": "other", "late": "other"}


@pytest.fixture(scope="package")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    file = tmp_path_factory.mktemp("adapters") / "pipeline.toml"
    tables = [
        f'[branches.{kind}]\nkind = "{kind}"\ngroup = "{group}"\nstore = "local"\n'
        for kind, group in BRANCHES.items()
    ]
    file.write_text('[stores.local]\nkind = "embedded"\n' + "\n".join(tables))
    with (
        RedisServer(port=free_port()) as server,
        RunningPipeline(
            server,
            pipeline_file=file,
            kinds=kinds_with("raises", "hangs", "late"),
            alone=["chorale.hangs", "chorale.late"],
            sweeper=True,
            preload=PRELOAD,
            # Otherwise the branches that fail would soon not be asked any more.
            environment={"CHORALE_BREAKER_FAILURES": "0"},
        ) as running,
    ):
        running.index(
            {name: CORPUS[name] for name in ("notice", "deposit", "bread", "repairs")},
            year=2024,
            tags=["law"],
        )
        running.index(
            {"error": CORPUS["error"]}, year=2020, url="https://example.org/errors/4711", source_type="manual"
        )
        # By default a request has two seconds, in which a busy machine may miss a branch.
        publish_timeouts(running.redis, {"": 20.0})
        yield running
