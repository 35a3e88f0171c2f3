"""An answer warns once, and abstains from nothing, in a language that the namespace's encoder hardly knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.languages import ENGLISH, ITALIAN
from tests.support.pipelines.indexed_texts import index_texts
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch

ENCODERS = '[encoders.every_language]\nkind = "endpoint"\nurl = "http://127.0.0.1:9/v1"\nmodel = "e5"\n'
TRUSTING = '[configurations.usual]\nmethod = "rrf"\n[configurations.trusting]\nmethod = "rrf"\ntrust_vectors = true\n'


class EveryLanguage(HashingEmbedder):
    """Counts each word as one piece, so it knows them all."""

    fingerprint = "every language"
    comparable = ("every language",)


@pytest.fixture(scope="module")
def here() -> Iterator[OneProcess]:
    """Namespaces with the bundled English model, and one with an encoder that knows Italian."""
    branches = [branch("bm25"), branch("vector", "dense"), branch("hyde", "dense")]
    text = "".join(['default_configuration = "usual"\n', LOCAL, ENCODERS, *branches, TRUSTING])
    with OneProcess.with_file(text, embedders={"every_language": EveryLanguage()}) as pipeline:
        texts = {"italian": ITALIAN, "english": ENGLISH, "known": ITALIAN}
        for namespace, text in texts.items():
            encoder = "every_language" if namespace == "known" else None
            index_texts(pipeline.resources, namespace, {"contract": ("", text)}, encoder=encoder)
        yield pipeline


def test_each_answer_warns_once_and_an_answer_from_the_cache_does_too(here: OneProcess) -> None:
    first = here.ask(["Come si disdice?", "Chi consegna il certificato?"], namespace="italian")
    again = here.ask("Come si disdice?", namespace="italian")
    assert (first.status, first.cached, again.cached) == ("complete", False, True)
    (warning,) = first.warnings
    assert warning.startswith("language: namespace 'italian': its encoder knows ")
    assert warning.endswith("`chorale namespaces rebuild NAME --encoder ENCODER`")
    assert again.warnings == (warning,)


def test_nothing_is_abstained_where_the_encoder_hardly_knows_the_language(here: OneProcess) -> None:
    questions = ["Quanto dura il preavviso?", "xyzzy"]
    answer = here.ask(questions, namespace="italian", include=["explanation"], abstain=0.99)
    for question in answer.questions:
        assert (question.confidence, question.abstained, question.signals) == (None, False, {})
    kinds = [line.split(":")[0] for line in answer.warnings]
    assert sorted(kinds) == ["abstain", "language"]
    (why,) = (line for line in answer.warnings if line.startswith("abstain:"))
    assert "it needs the branch `vector`, an encoder that knows the namespace's language" in why


@pytest.mark.parametrize("namespace", ["english", "known"])
def test_no_answer_warns_where_the_encoder_knows_the_language(here: OneProcess, namespace: str) -> None:
    answer = here.ask("contract contratto", namespace=namespace)
    assert (answer.status, answer.warnings) == ("complete", ())
    assert "vector" in answer.hits[0].found_by


def test_an_answer_without_vectors_or_whose_configuration_trusts_them_has_no_warning(
    here: OneProcess,
) -> None:
    assert here.ask("disdetta contratto", namespace="italian", branches=["bm25"]).warnings == ()
    assert here.ask("disdetta contratto", namespace="italian", configuration="trusting").warnings == ()
