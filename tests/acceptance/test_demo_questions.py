"""The demo's questions over its whole corpus, indexed as the pipeline does it: each shows what it claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from chorale_client.request import Request

from cli.demo_questions import QUESTIONS, DemoQuestion, Shows, broken_claim
from config.pipeline import load_pipeline
from fusion.fuse import fuse_question
from inference.embedders import load_embedder
from inference.feedback import feedback_vector
from inference.protocol import Embedder
from ingest.near_duplicates import NearDuplicates
from ingest.python_docs import SOURCE, python_docs
from ingest.split import Splitter, passage_pieces
from models.documents import Manifest, Matrix
from models.envelope import Envelope
from models.hits import Ranking
from models.plan import BranchPlan, Plan
from search.embedded.store import EmbeddedStore
from tasks.indexing import index_documents

NAMESPACE = "python"
DEPTH = 100
LIMIT_S = 30.0
BRANCH_FIELDS = {"name", "kind", "group", "store", "queue", "weight"}


@dataclass(frozen=True)
class Demo:
    store: EmbeddedStore
    embedder: Embedder
    passages: int

    def ask(self, question: DemoQuestion) -> dict[str, Ranking]:
        """The rankings of the three branches, with feedback as the hypothesis."""
        (lexical,) = self.store.search_text(
            NAMESPACE, [question.text], depth=DEPTH, filters=question.filters, timeout_s=LIMIT_S
        )
        vectors = self.embedder.embed_questions([question.text])
        (dense,) = self._near(vectors, question)
        best = lexical.hits[:3]
        if not best:
            return {"bm25": lexical, "vector": dense, "hyde": Ranking()}
        known = self.store.vectors(NAMESPACE, [hit.passage_id for hit in best])
        passages = np.stack([known[hit.passage_id] for hit in best])
        moved = feedback_vector(vectors[0], passages, [hit.score for hit in best])
        (feedback,) = self._near(moved[np.newaxis], question)
        return {"bm25": lexical, "vector": dense, "hyde": feedback}

    def _near(self, vectors: Matrix, question: DemoQuestion) -> list[Ranking]:
        return self.store.search_vectors(
            NAMESPACE, vectors, depth=DEPTH, filters=question.filters, timeout_s=LIMIT_S
        )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    embedder = load_embedder("sentence-transformers/all-MiniLM-L6-v2", backend="onnx", threads=2)
    embedder.warm()
    store = EmbeddedStore(tmp_path_factory.mktemp("corpus"))
    splitter = Splitter(embedder.count_pieces, max_pieces=passage_pieces(embedder.max_pieces))
    report = index_documents(
        python_docs(),
        store=store,
        embedder=embedder,
        namespace=NAMESPACE,
        manifest=Manifest(splitter.name, "en", "tantivy", embedder.fingerprint, embedder.dimension),
        source=SOURCE,
        splitter=splitter,
        near_duplicates=NearDuplicates(),
    )
    assert not report.skipped
    yield Demo(store, embedder, report.passages)
    store.close()


def ranks_of(document_id: str | None, ranking: Ranking) -> int | None:
    order = list(dict.fromkeys(hit.document_id for hit in ranking.hits))
    return order.index(document_id) + 1 if document_id in order else None


@pytest.mark.timeout(600)  # the first of them indexes the corpus
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.shows.value)
def test_each_question_shows_what_it_claims(demo: Demo, question: DemoQuestion) -> None:
    rankings = demo.ask(question)
    pipeline = load_pipeline()
    configuration = pipeline.configurations[pipeline.default_configuration]
    plan = Plan(
        configuration=configuration.name,
        namespace=NAMESPACE,
        branches=tuple(
            BranchPlan(depth=DEPTH, limit_ms=1_000, **branch.model_dump(include=BRANCH_FIELDS))
            for branch in pipeline.branches_of(configuration)
        ),
        method=configuration.method,
        k=configuration.k,
        generation=None,
        asked=(0,),
        now="2026-01-01T00:00:00+00:00",
        finish_reserve_ms=60,
        fusion_reserve_ms=160,
    )
    envelopes = {
        name: Envelope(name, "ok" if ranking.hits else "empty", rankings=(ranking,))
        for name, ranking in rankings.items()
    }
    request = Request(namespace=NAMESPACE, questions=(question.text,))
    fused = fuse_question(plan, envelopes, 0, request)
    found = {name: ranks_of(question.expected, rankings[name]) for name in ("bm25", "vector")}
    assert (
        broken_claim(
            question,
            first=fused.hits[0].document_id if fused.hits else None,
            ranks={name: rank for name, rank in found.items() if rank is not None},
            has_lexical_hits=bool(rankings["bm25"].hits),
            best_cosine=rankings["vector"].hits[0].score,
        )
        is None
    )
    if question.filters:
        assert all(hit.document_id.startswith("python/subprocess") for hit in fused.hits)
        unfiltered = DemoQuestion(question.shows, question.text, question.why, question.expected)
        assert ranks_of(question.expected, demo.ask(unfiltered)["bm25"]) != 1


def test_there_is_a_question_for_everything_the_demo_shows() -> None:
    assert [question.shows for question in QUESTIONS] == list(Shows)
