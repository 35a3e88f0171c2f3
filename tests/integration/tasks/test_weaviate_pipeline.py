"""A pipeline whose only store is a Weaviate: text, vector, hypothesis and its own fusion, each a branch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from models.declarations.engines import WeaviateEndpoint
from tests.support.pipelines.forked_children import run_module
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import CORPUS
from tests.support.pipelines.pipeline_files import branch
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.weaviate_server import activity, own_collection

KINDS = ("bm25", "vector", "hyde", "hybrid")
STORE = """
[stores.cluster]
kind = "weaviate"
options = {{ url = "{url}", grpc_port = {grpc_port}, collection = "{collection}" }}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    file = tmp_path_factory.mktemp("weaviate") / "pipeline.toml"
    with own_collection() as endpoint, RedisServer() as server:
        store = STORE.format(url=endpoint.url, grpc_port=endpoint.grpc_port, collection=endpoint.collection)
        file.write_text(store + "".join(branch(kind, kind, store="cluster") for kind in KINDS))
        with OneProcess(server, pipeline_file=file) as here:
            here.index()
            yield here
            here.resources.writing_store.close()


def chorale(cluster: OneProcess, *arguments: str) -> str:
    """What the command prints."""
    environment = {**os.environ, **cluster.environment}
    called = run_module("cli", *arguments, environment=environment, timeout_s=60)
    assert called.stdout, called.stderr
    return called.stdout


def printed(cluster: OneProcess, *arguments: str) -> Any:
    return json.loads(chorale(cluster, *arguments, "--json"))


def activity_of(cluster: OneProcess) -> dict[str, str]:
    """The state of each namespace's tenant.  The name of a tenant ends with the version of its index."""
    endpoint = WeaviateEndpoint(**cluster.resources.pipeline.stores["cluster"].options)
    return {tenant.rpartition("-V")[0]: state for tenant, state in activity(endpoint).items()}


def test_every_branch_finds_the_document(cluster: OneProcess) -> None:
    answer = cluster.ask("Who pays for repairs?", include=["ids", "metadata", "texts"])
    assert answer.status == "complete"
    best = answer.hits[0]
    assert (best.document_id, set(best.found_by)) == ("repairs", set(KINDS))
    assert (best.title, best.text) == ("Repairs", CORPUS["repairs"][1])


def test_a_namespace_is_made_closed_and_deleted_by_commands(cluster: OneProcess) -> None:
    for created in (True, False):
        made = printed(cluster, "namespaces", "create", "drafts")
        assert made == {"v": 1, "namespace": "drafts", "created": created}
    answer = cluster.ask("Who pays?", namespace="drafts")
    assert (answer.status, answer.hits) == ("complete", ())
    printed(cluster, "namespaces", "deactivate", "drafts")
    assert activity_of(cluster)["drafts"] == "COLD"
    deleted = chorale(cluster, "namespaces", "delete", "drafts", "--yes")
    assert deleted == "drafts: deleted, with 0 documents\n"
    assert "drafts" not in activity_of(cluster)


def test_a_namespace_that_was_deactivated_stays_closed_until_the_next_request(cluster: OneProcess) -> None:
    closed = printed(cluster, "namespaces", "deactivate", "default")
    assert closed == {"v": 1, "namespace": "default", "stores": ["cluster"]}
    assert activity_of(cluster) == {"default": "COLD"}
    cluster.start("all", queue=",".join(cluster.resources.pipeline.request_queues))
    cluster.wait_ready()
    cluster.kill("all")
    (listed,) = printed(cluster, "status")["namespaces"]
    assert (listed["name"], listed["documents"]) == ("default", len(CORPUS))
    checks = {check["check"]: check["status"] for check in printed(cluster, "doctor")["checks"]}
    assert (checks["stores"], checks["documents"]) == ("well", "well")
    assert activity_of(cluster) == {"default": "COLD"}
    answer = cluster.ask("Who pays for repairs?", cache="bypass")
    assert (answer.status, answer.hits[0].document_id) == ("complete", "repairs")
