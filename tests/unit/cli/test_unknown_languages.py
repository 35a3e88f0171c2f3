"""`chorale up` and `chorale doctor` name the namespaces that the default configuration should not rank."""

from dataclasses import replace

from assembly.pipeline import load_pipeline
from cli.unknown_languages import unknown_languages
from models.documents import Manifest, NamespaceState

PIPELINE = load_pipeline()


def namespace(name: str, known_words: float | None) -> NamespaceState:
    return NamespaceState(name, 1, 1, 1, Manifest("", "it", "", "", 4, known_words=known_words))


STATES = [namespace("english", 0.89), namespace("italian", 0.14), namespace("unmeasured", None)]


def test_plain_rrf_is_named_as_unwise_for_a_language_that_the_encoder_hardly_knows() -> None:
    assert list(unknown_languages(PIPELINE, STATES)) == [
        "namespace 'italian': the encoder knows 14% of its words, so vectors mislead the default configuration 'rrf'"
    ]
    empty = replace(STATES[1], manifest=None)
    assert not list(unknown_languages(PIPELINE, [empty]))


def test_neither_fused_scores_nor_a_single_branch_is_unwise() -> None:
    for name in ("scores", "baseline"):
        assert not list(unknown_languages(replace(PIPELINE, default_configuration=name), STATES))
