"""Requests after a namespace was moved to a store that no branch names, and while it is moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client.wire_names import Status

from config.settings import Settings
from models.errors import NotConfigured, UnknownNamespace
from models.hits import Ranking
from search.engines.embedded.store import EmbeddedStore
from tasks.indexing.moving import move_namespace
from tasks.wiring.resources import Resources
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch, declared

OTHER = '[stores.other]\nkind = "embedded"\noptions = { folder = "other" }\n'
HYDE = 'options = { generator = "feedback", feedback_store = "local" }'
BRANCHES = branch("bm25") + branch("vector", "dense") + branch("hyde", "dense", more=HYDE)
SCORES = '[configurations.scores]\nmethod = "dbsf"\ncomplete_scores = true\n'
AWAY = """
[rerankers.away]
backend = "endpoint"
url = "http://127.0.0.1:9"
model = "m"

[configurations.reranked]
method = "rrf"
reranker = "away"
"""
QUESTION = "who pays for the repairs of a flat?"


@pytest.fixture(scope="module")
def pipeline() -> Iterator[OneProcess]:
    embedders = {"default": HashingEmbedder(dimension=384)}
    with OneProcess.with_file(LOCAL + OTHER + BRANCHES + SCORES + AWAY, embedders=embedders) as pipeline:
        index_texts(pipeline.resources, "docs")
        yield pipeline


@pytest.fixture
def here(pipeline: OneProcess) -> OneProcess:
    """The namespace `docs`, in the store `local` alone, and no cached answer."""
    move_namespace(pipeline.resources, "docs", ["local"])
    return pipeline


def ranked(here: OneProcess) -> list[tuple[str, tuple[str, ...], float]]:
    answer = here.ask(QUESTION, namespace="docs", configuration="scores", top_k=5, cache="bypass")
    assert (answer.status, answer.degraded) == (Status.COMPLETE, ())
    return [(hit.document_id, tuple(sorted(hit.found_by)), hit.score) for hit in answer.hits]


def test_every_branch_answers_alike_from_the_store_that_the_namespace_was_moved_to(here: OneProcess) -> None:
    before = ranked(here)
    assert before[0][:2] == ("repairs", ("bm25", "hyde", "vector"))
    for store in ("other", "local"):
        move_namespace(here.resources, "docs", [store])
        assert ranked(here) == before


def test_a_reranker_behind_an_address_is_called_after_a_move(here: OneProcess) -> None:
    move_namespace(here.resources, "docs", ["other"])
    answer = here.ask(QUESTION, namespace="docs", configuration="reranked", cache="bypass")
    # Nothing listens at the address, and on a busy machine the time ends first.
    (missing,) = answer.degraded
    assert missing.where == "rerank"
    assert missing.reason in ("unavailable", "timeout")


def test_an_answer_that_was_cached_before_a_move_is_not_given_after_it(here: OneProcess) -> None:
    def is_cached() -> bool:
        return here.ask(QUESTION, namespace="docs", top_k=5).cached

    assert [is_cached(), is_cached()] == [False, True]
    move_namespace(here.resources, "docs", ["other"])
    assert [is_cached(), is_cached()] == [False, True]


def test_a_search_whose_index_is_dropped_at_the_last_moment_uses_the_new_store(
    here: OneProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, search_text, moved = ranked(here), EmbeddedStore.search_text, list[str]()

    def move_first(self: EmbeddedStore, *args: Any) -> list[Ranking]:
        if not moved:
            moved.append("docs")
            move_namespace(here.resources, "docs", ["other"])
            self.close()
        return search_text(self, *args)

    monkeypatch.setattr(EmbeddedStore, "search_text", move_first)
    assert ranked(here) == before
    assert moved == ["docs"]


def test_a_store_that_a_branch_cannot_search_is_refused(tmp_path: Path) -> None:
    def refused(pipeline: str) -> str:
        made = Resources(Settings(home=tmp_path), declared(tmp_path, pipeline), "redis://127.0.0.1:9")
        with pytest.raises(NotConfigured) as raised:
            move_namespace(made, "docs", ["other"])
        return str(raised.value)

    words = '[stores.other]\nkind = "elasticsearch"\noptions = { url = "http://127.0.0.1:9" }\n'
    cannot = "the branch '{}' cannot search the store 'other': a branch of kind '{}' "
    without = cannot.format("vector", "vector") + "needs a store with `vectors = true`"
    assert refused(LOCAL + words + BRANCHES).startswith(without)
    weaviate = LOCAL.replace("embedded", "weaviate")
    hybrid = refused(weaviate + OTHER + branch("both", "dense", kind="hybrid"))
    assert hybrid.startswith(cannot.format("both", "hybrid") + "cannot search a store of kind 'embedded'")


def test_each_branch_needs_only_one_of_several_stores(tmp_path: Path) -> None:
    words = '[stores.words]\nkind = "elasticsearch"\noptions = { url = "http://127.0.0.1:9" }\n'
    branches = branch("bm25", store="words") + branch("vector", "dense")
    made = Resources(
        Settings(home=tmp_path), declared(tmp_path, LOCAL + words + branches), "redis://127.0.0.1:9"
    )
    # The check of the branches comes before that of the namespace.
    with pytest.raises(UnknownNamespace):
        move_namespace(made, "docs", ["words", "local"])
    made.writing_store.close()
