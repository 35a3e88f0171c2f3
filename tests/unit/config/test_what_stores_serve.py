"""A branch that its store cannot serve is refused when the pipeline file is read, with what would serve it."""

from __future__ import annotations

import pytest

from models.errors import WrongDeclaration
from tests.support.pipelines.pipeline_files import LOCAL, Declares, branch

WORDS = "bm25", "document"
VECTORS = "vector", "hyde"
GRAPH = 'documents = "local", links = { CITES = "cites" }'
AWAY = 'url = "http://127.0.0.1:9"'
SERVED = {
    "embedded": ("", {*WORDS, *VECTORS}),
    "postgresql": ("", {*WORDS, *VECTORS}),
    "postgresql without vectors": ("vectors = false", {*WORDS}),
    "elasticsearch": (AWAY, {*WORDS}),
    "elasticsearch with vectors": (f"{AWAY}, vectors = true", {*WORDS, *VECTORS}),
    "opensearch": (AWAY, {*WORDS}),
    "opensearch with vectors": (f"{AWAY}, vectors = true", {*WORDS, *VECTORS}),
    "weaviate": (AWAY, {*WORDS, *VECTORS, "hybrid"}),
    "graph": (GRAPH, set()),
    "neo4j": ('url = "bolt://127.0.0.1:7687"', set()),
}


def pipeline(store: str, options: str, kind: str) -> str:
    declared = f'[stores.other]\nkind = "{store.split()[0]}"\noptions = {{ {options} }}\n'
    return LOCAL + declared + branch("asks", kind=kind, store="other")


@pytest.mark.parametrize("store", SERVED)
@pytest.mark.parametrize("kind", [*WORDS, *VECTORS, "hybrid"])
def test_each_kind_of_store_takes_the_branches_that_it_serves(
    declares: Declares, store: str, kind: str
) -> None:
    options, served = SERVED[store]
    text = pipeline(store, options, kind)
    if kind in served:
        assert declares(text).branches[0].kind == kind
    else:
        with pytest.raises(WrongDeclaration, match=rf"pipeline.toml:\d+: .*a branch of kind '{kind}' "):
            declares(text)


@pytest.mark.parametrize(
    ("store", "kind", "says"),
    [
        ("postgresql", "hybrid", "cannot search a store of kind 'postgresql'; there are: weaviate"),
        ("neo4j", "bm25", "there are: elasticsearch, embedded, opensearch, postgresql, weaviate"),
        ("graph", "vector", "there are: elasticsearch, embedded, opensearch, postgresql, weaviate"),
        (
            "elasticsearch",
            "vector",
            "needs a store with `vectors = true`: set the option, or take the branch out",
        ),
        ("postgresql without vectors", "hyde", "set the option, or take the branch out"),
    ],
)
def test_the_refusal_names_the_kinds_of_stores_or_the_option_that_would_serve_the_branch(
    declares: Declares, store: str, kind: str, says: str
) -> None:
    with pytest.raises(WrongDeclaration, match=says):
        declares(pipeline(store, SERVED[store][0], kind))
