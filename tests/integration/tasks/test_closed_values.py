"""A field of the metadata with a closed list of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import Answer
from chorale_client.wire_names import QUEUE_INDEX

from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import BM25_ALONE

FIELDS = """
[fields.domain]
values = ["animals", "machines"]
namespaces = ["farm"]
"""
TEXTS = {
    "cow": "A cow sleeps in the barn.",
    "tractor": "He parks what he drives by day, near the barn.",
    "typo": "Where is a barn of wood?",
    "mixed": "Wheels, hooves and a barn of stone.",
    "none": "The roof of the barn leaks when it rains.",
    "horse": "Who shuts the barn door after it has bolted?",
}


@pytest.fixture(scope="module")
def farm() -> Iterator[OneProcess]:
    with OneProcess.with_file(BM25_ALONE + FIELDS, embedders={"default": HashingEmbedder()}) as pipeline:
        yield pipeline


def index(farm: OneProcess, domains: dict[str, Any], namespace: str) -> Any:
    rows = [
        {"id": id_, "text": TEXTS[id_], "metadata": {"domain": domain} if domain else {}}
        for id_, domain in domains.items()
    ]
    client = farm.client()
    ticket = client.upsert(namespace, rows)
    farm.work(QUEUE_INDEX)
    return client.wait_visible(ticket, wait_s=0)


def retrieve(farm: OneProcess, domain: Any, namespace: str = "farm") -> Answer:
    return farm.ask("barn", namespace=namespace, filters={"domain": domain}, cache="bypass")


def test_a_wrong_value_is_refused_in_a_document_and_in_a_filter_with_the_values_that_there_are(
    farm: OneProcess,
) -> None:
    there_are = "there are: animals, machines"
    domains = {
        "cow": "animals",
        "tractor": ["machines"],
        "typo": "anmials",
        "mixed": ["animals", "x"],
        "none": None,
    }
    indexed = index(farm, domains, "farm")
    assert (indexed.added, indexed.reasons) == (3, {"wrong_value": 2})
    assert tuple(indexed.skipped) == (
        f"document 3, line 3: metadata.domain: no 'anmials'; {there_are}",
        f"document 4, line 4: metadata.domain: no 'x'; {there_are}",
    )
    answer = retrieve(farm, ["animals", "machines"])
    assert (answer.status, {hit.document_id for hit in answer.hits}) == ("complete", {"cow", "tractor"})
    for domain in ("anmials", ["animals", "anmials"], {"not": "anmials"}):
        wrong = retrieve(farm, domain)
        assert (wrong.status, wrong.hits) == ("failed", ())
        assert wrong.degraded[0].detail == f"filters.domain: no 'anmials'; {there_are}"


def test_another_version_of_a_document_with_a_wrong_value_does_not_take_its_place(
    farm: OneProcess,
) -> None:
    assert index(farm, {"horse": "animals"}, "farm").added == 1
    assert index(farm, {"horse": "horses"}, "farm").reasons == {"wrong_value": 1}
    assert "horse" in {hit.document_id for hit in retrieve(farm, "animals").hits}


def test_the_list_holds_in_its_namespaces_alone(farm: OneProcess) -> None:
    assert index(farm, {"typo": "anmials"}, "forest").added == 1
    assert [hit.document_id for hit in retrieve(farm, "anmials", "forest").hits] == ["typo"]
