"""A namespace takes documents of every length, in every order: a first text is often too short to tell its language by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from config.settings import Settings
from tasks.indexing.handed_in_documents import Unfinished, index_handed_in
from tasks.indexing.namespace_writer import create_namespace
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.command_line import ROOT
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines.indexed_texts import index_texts

Texts = Mapping[str, str]
"""Documents by their ids."""

Way = Callable[[Resources, Texts], int]
"""Indexes documents; returns how many were added."""


def typed_on(page: str) -> Texts:
    """The documents that a reader of the page makes with `echo '…' > my-docs/…`."""
    text = (ROOT / page).read_text("utf-8")
    return {name: line for line, name in re.findall(r"(?m)^echo '(.+)' > my-docs/(\S+)$", text)}


def pages(*names: str) -> Texts:
    return {name: (ROOT / name).read_text("utf-8") for name in names}


README = typed_on("README.md")
START = typed_on("docs/start.md")
REAL = pages("SECURITY.md", "docs/guides/golden.md")
SENTENCES = {f"{n}.txt": text for n, text in enumerate(REAL["SECURITY.md"].split(".  ")[:3])}
ORDERS: Mapping[str, Sequence[Texts]] = {
    "README's sentence first": [README, REAL],
    "the three files of the start page first": [START, REAL],
    "the long ones first": [REAL, START],
    "together": [{**START, **REAL}],
    "one by one": [{name: text} for name, text in {**START, **SENTENCES, **REAL}.items()],
}


def by_command(resources: Resources, texts: Texts) -> int:
    return index_texts(resources, "order", {name: ("", text) for name, text in texts.items()}).added


def by_message(resources: Resources, texts: Texts) -> int:
    rows = [{"id": name, "text": text} for name, text in texts.items()]
    return index_handed_in(resources, Unfinished(), None, rows, namespace="order", source="tests").added


@pytest.fixture
def resources(tmp_path: Path) -> Iterator[Resources]:
    made = Resources(Settings(home=tmp_path), load_pipeline(), "redis://127.0.0.1:1/0")
    use_embedder(made, HashingEmbedder())
    yield made
    made.writing_store.close()


@pytest.mark.parametrize("way", [by_command, by_message])
@pytest.mark.parametrize("order", ORDERS)
def test_short_and_long_documents_follow_each_other(resources: Resources, order: str, way: Way) -> None:
    for texts in ORDERS[order]:
        assert way(resources, texts) == len(texts)
    assert resources.writing_store.known("order").manifest.known_words is not None


@pytest.mark.parametrize("way", [by_command, by_message])
def test_a_namespace_that_was_made_empty_takes_documents(resources: Resources, way: Way) -> None:
    create_namespace(resources, "order", language="en")
    assert way(resources, REAL) == len(REAL)
