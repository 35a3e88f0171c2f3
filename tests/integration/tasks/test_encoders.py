"""Several encoders in one installation: each namespace has its own, and may get another while it is searched."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from chorale_client.keys import SERVED
from chorale_client.wire_names import QUEUE_BULK

from inference.embedders import OnnxEmbedder
from ingest.raw_documents import RawDocument
from models.errors import ManifestMismatch, NotConfigured
from search.analysis import ANALYSER
from tasks.indexing import embedding_anew, namespace_writer
from tasks.indexing.embedding_anew import embed_anew
from tasks.indexing.handed_in_documents import Unfinished, index_handed_in
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import create_namespace, index_corpus
from tests.integration.tasks.answers import ids
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import CORPUS
from tests.support.pipelines.pipeline_files import LOCAL, branch

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
ENCODERS = f"""
[encoders.small]
model = "{MINILM}"
dimensions = 128
"""
BRANCHES = branch("bm25") + branch("vector", "dense") + branch("hyde", "dense")


class Small(HashingEmbedder):
    fingerprint = "hashing/2"
    comparable = ("hashing/2",)


@pytest.fixture(scope="module")
def real() -> Iterator[OneProcess]:
    """With the real model, whole and cut."""
    with OneProcess.with_file(LOCAL + ENCODERS + BRANCHES) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def here() -> Iterator[OneProcess]:
    embedders = {"default": HashingEmbedder(dimension=16), "small": Small(dimension=8)}
    with OneProcess.with_file(LOCAL + ENCODERS + BRANCHES, embedders=embedders) as pipeline:
        yield pipeline


@pytest.fixture
def docs(request: pytest.FixtureRequest) -> str:
    """The name of a namespace that no other test has."""
    return f"docs-{request.node.name[-40:]}".replace("_", "-").rstrip("-")


def use_precision(real: OneProcess, precision: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts the process's encoders with this precision of the default one."""
    declared = real.resources.encoders.declared["default"].model_copy(update={"precision": precision})
    monkeypatch.setitem(real.resources.encoders.declared, "default", declared)
    monkeypatch.setattr(real.resources.encoders, "_made", {})


def built(real: OneProcess, namespace: str) -> str:
    """The fingerprint that the namespace's vectors have."""
    return real.resources.writing_store.known(namespace).manifest.embedder


def dimension(here: OneProcess, namespace: str, document_id: str = "bread") -> int:
    """The length of the vector of a document's first passage, as the store has it."""
    (vector,) = here.resources.store("local").vectors(namespace, [f"{document_id}#0"]).values()
    return len(vector)


def test_each_namespace_is_indexed_and_searched_with_its_own_encoder(here: OneProcess) -> None:
    index_texts(here.resources, "large")
    index_texts(here.resources, "small", encoder="small")
    assert (dimension(here, "large"), dimension(here, "small")) == (16, 8)
    for namespace in ("large", "small"):
        answer = here.ask("How is bread baked?", namespace=namespace)
        assert (answer.status, ids(answer)[0]) == ("complete", "bread")
        assert set(answer.hits[0].found_by) == {"bm25", "vector", "hyde"}


def test_a_namespace_keeps_its_encoder_when_documents_are_added(here: OneProcess, docs: str) -> None:
    create_namespace(here.resources, docs, "small")
    index_texts(here.resources, docs)
    assert dimension(here, docs) == 8
    with pytest.raises(
        ManifestMismatch, match=r"encoder is 'small', asked for 'default'.*namespaces rebuild"
    ):
        index_texts(here.resources, docs, encoder="default")


def test_documents_that_are_handed_in_make_a_namespace_with_the_encoder_that_they_name(
    here: OneProcess, docs: str
) -> None:
    rows = [{"id": "bread", "text": "Bread is baked from flour."}]
    report = index_handed_in(
        here.resources, Unfinished(), None, rows, namespace=docs, source="task", encoder="small"
    )
    assert (report.added, dimension(here, docs)) == (1, 8)


def test_another_encoder_takes_the_place_of_the_first_and_the_documents_stay(
    here: OneProcess, docs: str
) -> None:
    index_texts(here.resources, docs)
    before = here.ask("ERR-4711", namespace=docs)
    report = embed_anew(here.resources, docs, encoder="small")
    assert (report.replaced, report.unchanged, report.unwritten) == (len(CORPUS), 0, {})
    assert dimension(here, docs) == 8
    after = here.ask("ERR-4711", namespace=docs)
    assert (after.status, after.cached, ids(after)[0]) == ("complete", False, ids(before)[0])
    assert (after.hits[0].title, after.hits[0].snippet) == (before.hits[0].title, before.hits[0].snippet)


def test_a_namespace_of_an_older_analyser_refuses_documents_naming_the_command_that_builds_it_anew(
    here: OneProcess, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_writer, "ANALYSER", "chorale-lexical-1")
    index_texts(here.resources, docs)
    monkeypatch.undo()
    with pytest.raises(
        ManifestMismatch,
        match=f"analyser is 'chorale-lexical-1', asked for '{ANALYSER}'.*chorale index --rebuild",
    ):
        index_texts(here.resources, docs)
    embed_anew(here.resources, docs)
    assert here.resources.writing_store.known(docs).manifest.analyser == ANALYSER
    index_texts(here.resources, docs)


def test_a_namespace_is_searched_as_before_until_all_of_it_is_embedded(
    here: OneProcess, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_anew, "BATCH_DOCUMENTS", 2)
    index_texts(here.resources, docs)
    seen: list[tuple[str, int]] = []

    def search(_: object) -> None:
        answer = here.ask("bread", namespace=docs, cache="bypass")
        seen.append((answer.status, dimension(here, docs)))

    embed_anew(here.resources, docs, encoder="small", progress=search)
    # Five documents are embedded in three batches.
    assert seen == [("complete", 16)] * 3
    assert dimension(here, docs) == 8


def test_a_run_that_was_interrupted_goes_on_with_what_is_left(
    here: OneProcess, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_anew, "BATCH_DOCUMENTS", 2)
    index_texts(here.resources, docs)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_anew(here.resources, docs, encoder="small", progress=interrupt)
    assert dimension(here, docs) == 16
    report = embed_anew(here.resources, docs, encoder="small")
    assert (report.unchanged, report.replaced) == (2, len(CORPUS) - 2)
    assert dimension(here, docs) == 8


def test_near_duplicates_are_still_folded_after_a_change_of_the_encoder(here: OneProcess, docs: str) -> None:
    text = " ".join(f"Loaf {number} is baked of wheat flour and of salt." for number in range(12))
    index_texts(
        here.resources, docs, {"first": ("Loaves", text), "second": ("Loaves", f"{text} It is good.")}
    )
    embed_anew(here.resources, docs, encoder="small")
    answer = here.ask("wheat flour and salt", namespace=docs)
    assert len(answer.hits) == 1
    index_texts(here.resources, docs, {"third": ("Loaves", f"{text} It is brown.")}, source="more")
    assert len(here.ask("wheat flour and salt", namespace=docs).hits) == 1


def test_a_search_that_a_new_encoder_overtakes_is_embedded_again(
    here: OneProcess, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_texts(here.resources, docs)
    questions = here.resources.encoder.questions
    embed = questions.embed_questions

    def overtaken(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        vectors = embed(*arguments, **options)  # type: ignore[arg-type]
        embed_anew(here.resources, docs, encoder="small")
        return vectors

    monkeypatch.setattr(questions, "embed_questions", overtaken)
    answer = here.ask("bread", namespace=docs, branches=["vector"])
    assert (answer.status, ids(answer)[0]) == ("complete", "bread")
    assert dimension(here, docs) == 8


def test_vectors_of_another_model_under_the_same_name_are_not_compared(
    here: OneProcess, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_texts(here.resources, docs)
    monkeypatch.setattr(here.resources.encoders, "_made", {})
    use_embedder(here.resources, Small(dimension=64))
    answer = here.ask("bread", namespace=docs)
    assert (answer.status, ids(answer)[0]) == ("degraded", "bread")
    reasons = {missing.where: (missing.reason, missing.detail) for missing in answer.degraded}
    assert set(reasons) == {"search.vector", "search.hyde"}
    reason, detail = reasons["search.vector"]
    assert reason == "bad_index"
    assert "has the vectors of another model than the encoder 'default' is here" in detail


def test_an_encoder_that_is_not_declared_is_named_with_those_that_are(
    here: OneProcess, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotConfigured, match=r"no encoder 'e5' here; there are: default, small"):
        create_namespace(here.resources, docs, "e5")
    index_texts(here.resources, docs, encoder="small")
    monkeypatch.delitem(here.resources.encoders.declared, "small")
    monkeypatch.setattr(here.resources.encoders, "_made", {})
    answer = here.ask("bread", namespace=docs)
    assert answer.status == "degraded"
    assert {missing.reason for missing in answer.degraded} == {"not_configured"}


def test_a_new_namespace_has_the_language_of_its_documents_and_keeps_it(here: OneProcess, docs: str) -> None:
    sentence = "Il conduttore deve dare la disdetta al locatore nella prima settimana del mese, e non è possibile che la dia dopo. "
    index_texts(here.resources, docs, {"uno": ("Uno", sentence * 8)})
    english = {"two": ("Two", "The tenant is in the flat. " * 30)}
    assert index_texts(here.resources, docs, english, source="more").added == 1
    (state,) = (state for state in here.resources.documents.namespaces() if state.name == docs)
    assert state.manifest is not None
    assert state.manifest.language == "it"
    # "conduttori" is the plural of a word of the first document.
    assert ids(here.ask("conduttori", namespace=docs, branches=["bm25"])) == ["uno"]


def test_a_new_namespace_has_the_analyser_for_the_language_of_its_first_document(
    here: OneProcess, docs: str
) -> None:
    expected: dict[str, tuple[str, dict[str, str], str]] = {
        "norwegian": ("Leieren betaler husleien den første dagen i måneden.", {}, "no"),
        "polish": ("Najemca płaci czynsz pierwszego dnia każdego miesiąca.", {}, "none"),
        "japanese": ("借主は毎月一日に家賃を払います。", {}, "none"),
        "declared": ("Halle 4", {"language": "de-AT"}, "de"),
        "unknown": ("ERR-4711", {}, "en"),
    }
    for name, (text, metadata, _) in expected.items():
        first = [RawDocument(document_id="one", source="tests", title="", text=text, metadata=metadata)]
        index_corpus(here.resources, SourceDocuments(first, "tests"), namespace=f"{docs[:40]}-{name}")
    chosen = {
        state.name.removeprefix(f"{docs[:40]}-"): state.manifest.language
        for state in here.resources.documents.namespaces()
        if state.manifest
    }
    assert {name: chosen[name] for name in expected} == {name: e[2] for name, e in expected.items()}


@pytest.mark.slow
def test_the_confidence_is_the_default_encoder_s_alone_also_of_a_costly_request(real: OneProcess) -> None:
    """The factors were fitted to the scores of one model."""
    index_texts(real.resources, "large")
    index_texts(real.resources, "small", encoder="small")
    confidences = [real.ask("bread", namespace=name).questions[0].confidence for name in ("large", "small")]
    assert confidences[0] is not None
    assert confidences[1] is None
    # 1,600 characters count for 46 ms of embedding: eight such questions are costly, and searched a few at a time.
    real.redis.set(SERVED + QUEUE_BULK, 1)
    questions = [f"bread {number} " * 160 for number in range(8)]
    answer = real.ask(questions, namespace="small", cache="bypass", timeout_s=60)
    assert answer.status == "complete"
    assert [question.confidence for question in answer.questions] == [None] * 8


@pytest.mark.slow
def test_a_namespace_keeps_its_precision_until_it_is_embedded_anew_and_is_searched_in_any(
    real: OneProcess, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, fast = (
        OnnxEmbedder(MINILM, threads=1, precision=precision).fingerprint for precision in ("fp32", "int8")
    )
    use_precision(real, "fp32", monkeypatch)
    index_texts(real.resources, docs)
    use_precision(real, "int8", monkeypatch)
    text = "A loaf of rye bread rises for eight hours."
    rows = [{"id": "rye", "text": text}]
    report = index_handed_in(real.resources, Unfinished(), None, rows, namespace=docs, source="task")
    (vector,) = real.resources.store("local").vectors(docs, ["rye#0"]).values()
    in_fp32 = OnnxEmbedder(MINILM, threads=1, precision="fp32").embed_passages([text])[0]
    assert (report.added, np.abs(vector - in_fp32).max() < 1e-6) == (1, True)
    assert built(real, docs) == exact
    answer = real.ask("How long does rye bread rise?", namespace=docs)
    assert (answer.status, ids(answer)[0]) == ("complete", "rye")
    embed_anew(real.resources, docs)
    assert built(real, docs) == fast
