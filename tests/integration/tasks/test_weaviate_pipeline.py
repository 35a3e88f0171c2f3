"""A pipeline whose only store is a Weaviate: text, vector, hypothesis and its own fusion, each a branch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.weaviate_endpoint import WeaviateEndpoint
from tests.support.pipelines.pipeline import CORPUS, PYTHONPATH, ROOT, RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.weaviate_server import activity, own_collection

QUEUES = ["chorale.retrieve", "chorale.all", "chorale.fusion"]
STORE = """
[stores.cluster]
kind = "weaviate"
options = {{ {options} }}
"""
BRANCH = """
[branches.{kind}]
kind = "{kind}"
group = "{kind}"
store = "cluster"
queue = "chorale.all"
"""
KINDS = ("bm25", "vector", "hyde", "hybrid")


def declared(folder: Path, options: str) -> Path:
    file = folder / "pipeline.toml"
    file.write_text(STORE.format(options=options) + "".join(BRANCH.format(kind=kind) for kind in KINDS))
    return file


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPipeline]:
    with own_collection() as endpoint, RedisServer() as server:
        options = (
            f'url = "{endpoint.url}", grpc_port = {endpoint.grpc_port}, collection = "{endpoint.collection}"'
        )
        file = declared(tmp_path_factory.mktemp("weaviate"), options)
        with RunningPipeline(server, pipeline_file=file, queues=QUEUES) as running:
            running.index()
            yield running
            running.resources.writing_store.close()


def chorale(running: RunningPipeline, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        env={**os.environ, **running.environment, "PYTHONPATH": PYTHONPATH},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def endpoint_of(running: RunningPipeline) -> WeaviateEndpoint:
    return WeaviateEndpoint(**running.resources.pipeline.stores["cluster"].options)


def test_every_branch_finds_the_document(running: RunningPipeline) -> None:
    answer = running.client().retrieve(
        "Who pays for repairs?", include=["ids", "metadata", "texts"], timeout_s=20
    )
    assert (answer.status, answer.hits[0].document_id) == ("complete", "repairs")
    assert set(answer.hits[0].found_by) == set(KINDS)
    assert answer.hits[0].title == "Repairs"
    assert answer.hits[0].text == CORPUS["repairs"][1]


def test_a_namespace_is_made_closed_and_deleted_by_commands(running: RunningPipeline) -> None:
    for created in (True, False):
        made = chorale(running, "namespaces", "create", "drafts", "--json")
        assert json.loads(made.stdout) == {"v": 1, "namespace": "drafts", "created": created}, made.stderr
    found = running.client().retrieve("Who pays?", namespace="drafts", timeout_s=20)
    assert (found.status, found.hits) == ("complete", ())
    assert chorale(running, "namespaces", "deactivate", "drafts").returncode == 0
    assert activity(endpoint_of(running))["drafts"] == "COLD"
    deleted = chorale(running, "namespaces", "delete", "drafts", "--yes")
    assert deleted.stdout == "drafts: deleted, with 0 documents\n"
    assert "drafts" not in activity(endpoint_of(running))


def test_a_namespace_that_was_deactivated_stays_closed_until_the_next_request(
    running: RunningPipeline,
) -> None:
    called = chorale(running, "namespaces", "deactivate", "default", "--json")
    assert (called.returncode, called.stderr) == (0, "")
    assert json.loads(called.stdout) == {"v": 1, "namespace": "default", "stores": ["cluster"]}
    assert activity(endpoint_of(running)) == {"default": "COLD"}
    for queue in QUEUES:
        running.kill(queue)
        running.start(queue)
    running.wait_ready()
    status = chorale(running, "status", "--json")
    (shown,) = json.loads(status.stdout)["namespaces"]
    assert (shown["name"], shown["documents"]) == ("default", len(CORPUS))
    examined = json.loads(chorale(running, "doctor", "--json").stdout)["checks"]
    of_stores = {one["check"]: one["status"] for one in examined if one["check"] in ("stores", "documents")}
    assert of_stores == {"stores": "well", "documents": "well"}
    assert activity(endpoint_of(running)) == {"default": "COLD"}
    answer = running.client().retrieve("Who pays for repairs?", cache="bypass", timeout_s=20)
    assert (answer.status, answer.hits[0].document_id) == ("complete", "repairs")
