"""Sources beside the corpus: an HTTP endpoint, a listing by metadata, and what an installed package brings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from chorale_client import Answer
from structlog.testing import capture_logs

from tests.integration.tasks.answers import ids, reasons
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.outside_packages import importable, install_example
from tests.support.pipelines.pipeline_files import branch
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.search_server import SearchServer, says, sends

PIPELINE = """
[stores.wiki]
kind = "http"
options = {{ url = "{url}?q={{question}}", id = "id", title = "name", text = "extract", id_prefix = "", \
published_at = "changed", metadata = {{ url = "link" }}, api_key_env = "WIKI_KEY" }}
[stores.local]
kind = "embedded"
[stores.pages]
kind = "wiki-folder"
options = {{ folder = "{folder}" }}
[configurations.rrf]
method = "rrf"
[configurations.inverse]
method = "inverse-rank"
"""
ECHO = 'options = { generator = "echo", generator_options = { before = "In short:" } }'
BRANCHES = [
    branch("bm25"),
    branch("wiki", "wiki", kind="http", store="wiki"),
    branch("newest", "listing", kind="document", more='options = { order_by = "year" }'),
    branch("filtered", "listing", kind="document", more='options = { without_filters = "never" }'),
    branch("unlisted", "listing", kind="document", store="pages"),
    branch("pages", "pages", kind="bm25", store="pages"),
    branch("titles", "pages", kind="wiki_title", store="pages"),
    branch("imagined", "dense", kind="hyde", more=ECHO),
]
WIKI = [
    {"id": "repairs", "name": "Repairs", "extract": "The landlord pays.", "changed": "2024-05-01"},
    {
        "id": "7",
        "name": "Keys",
        "extract": "Who pays for lost keys? The renter.",
        "link": "https://w.example/7",
    },
]
QUESTION = "Who pays for repairs?"


@pytest.fixture(scope="module")
def wiki() -> Iterator[SearchServer]:
    with SearchServer() as server:
        yield server


@pytest.fixture(scope="module")
def sources(wiki: SearchServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    folder = tmp_path_factory.mktemp("sources")
    pages = folder / "pages"
    pages.mkdir()
    (pages / "garden.txt").write_text("Garden\nWho pays for the garden and its repairs is agreed upon.")
    (pages / "repairs.txt").write_text("Repairs\nCall the office.")
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE.format(url=wiki.url, folder=pages) + "".join(BRANCHES))
    with (
        pytest.MonkeyPatch.context() as patch,
        importable(install_example(folder)),
        RedisServer() as server,
    ):
        patch.setenv("WIKI_KEY", "sesame-0815")
        with OneProcess(server, pipeline_file=file) as here:
            here.index()
            here.index({"old": ("Old", "An old page.")}, year=2019, kind="page")
            new = {"new": ("New", "A new page."), "newer": ("Newer", "Another one.")}
            here.index(new, year=2024, kind="page")
            yield here
            here.resources.store("wiki").close()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _calm(wiki: SearchServer) -> None:
    wiki.answer = says(WIKI)
    wiki.requests.clear()


def ask(here: OneProcess, *branches: str, **options: Any) -> Answer:
    return here.ask(QUESTION, branches=list(branches), **{"cache": "bypass", **options})


def test_hits_of_an_endpoint_have_the_texts_that_came_with_them(sources: OneProcess) -> None:
    answer = ask(sources, "wiki")
    assert (answer.status, answer.warnings) == ("complete", ())
    first, second = answer.hits
    assert (first.document_id, first.title, first.published_at) == ("repairs", "Repairs", "2024-05-01")
    assert second.url == "https://w.example/7"
    assert second.snippet is not None
    assert second.snippet.text == "Who pays for lost keys? The renter."


def test_one_document_found_in_two_stores_is_one_hit(sources: OneProcess) -> None:
    answer = ask(sources, "bm25", "wiki", include=["explanation", "metadata", "texts"])
    assert (answer.status, answer.warnings) == ("complete", ())
    assert len(set(ids(answer))) == len(answer.hits)
    both = answer.hits[0]
    assert (both.document_id, list(both.found_by)) == ("repairs", ["bm25", "wiki"])
    assert both.branches["bm25"].passage_id == "repairs#0"
    assert both.branches["wiki"].passage_id == "repairs#wiki"


@pytest.mark.parametrize(
    ("heavier", "passage_id", "text"),
    [
        ("bm25", "repairs#0", "The landlord pays for repairs, unless the renter broke the thing on purpose."),
        ("wiki", "repairs#wiki", "The landlord pays."),
        ("pages", "repairs#pages", "Call the office."),
    ],
)
def test_a_document_s_text_is_that_of_the_passage_shown_whichever_store_has_it(
    sources: OneProcess, heavier: str, passage_id: str, text: str
) -> None:
    branches = ("bm25", "wiki", "pages")
    weights = {branch: 3.0 if branch == heavier else 1.0 for branch in branches}
    answer = ask(sources, *branches, weights=weights, include=["metadata", "texts"])
    assert (answer.status, answer.warnings) == ("complete", ())
    best = answer.hits[0]
    assert (best.document_id, best.passage_id, best.text) == ("repairs", passage_id, text)


def test_an_endpoint_that_refuses_our_key_costs_only_itself_and_is_an_error_in_its_worker_s_log(
    sources: OneProcess, wiki: SearchServer
) -> None:
    wiki.answer = sends(403)
    with capture_logs() as logged:
        answer = ask(sources, "bm25", "wiki")
    assert reasons(answer) == [("search.wiki", "unauthorised")]
    assert (answer.status, answer.hits[0].document_id) == ("degraded", "repairs")
    assert "sesame" not in answer.model_dump_json()
    (error,) = [line for line in logged if line["log_level"] == "error"]
    assert (error["event"], error["branch"], error["store"]) == ("store refuses our key", "wiki", "wiki")
    assert error["error"] == answer.degraded[0].detail
    assert "check the key that api_key_env names" in error["error"]
    assert "sesame" not in str(logged)


def test_a_listing_has_what_the_filters_let_through_in_its_order(sources: OneProcess) -> None:
    answer = ask(sources, "newest", filters={"kind": "page"}, include=["metadata", "explanation"])
    assert (ids(answer), answer.hits[0].title) == (["new", "newer", "old"], "New")
    assert [hit.branches["newest"].score for hit in answer.hits] == [0.0, 0.0, 0.0]


def test_a_branch_whose_documents_lack_a_field_says_so_only_where_no_branch_finds_one(
    sources: OneProcess,
) -> None:
    answer = ask(sources, "newest", "wiki", filters={"kind": "page"})
    assert (ids(answer), answer.warnings) == (["new", "newer", "old"], ())
    answer = ask(sources, "wiki", filters={"kind": "page"})
    warned = ("filter 'kind': no document has this field, so nothing matches",)
    assert (answer.hits, answer.warnings) == ((), warned)
    # A document without the field meets this.
    answer = ask(sources, "wiki", filters={"kind": {"not": "page"}})
    assert (ids(answer), answer.warnings) == (["repairs", "7"], ())


def test_a_listing_without_filters_has_all_documents_unless_the_branch_says_never(
    sources: OneProcess,
) -> None:
    answer = ask(sources, "newest", top_k=4)
    assert (answer.status, ids(answer)[:3]) == ("complete", ["new", "newer", "old"])
    assert len(answer.hits) == 4
    answer = ask(sources, "filtered")
    assert (answer.status, answer.hits) == ("complete", ())
    assert "no filters" in [stage.detail for stage in answer.stages]


def test_a_store_that_lists_nothing_says_so(sources: OneProcess) -> None:
    answer = ask(sources, "bm25", "unlisted", filters={"kind": "page"})
    assert reasons(answer) == [("search.unlisted", "not_configured")]
    assert "'pages' cannot list documents" in answer.degraded[0].detail


def test_a_package_s_store_kind_and_method_work_together(sources: OneProcess) -> None:
    answer = ask(sources, "pages", "titles", configuration="inverse", include=["explanation", "snippets"])
    assert answer.status == "complete"
    best = answer.hits[0]
    # Both pages share words with the question; `repairs` alone has its title in it: 1/2 + 1 against 1.
    assert (best.document_id, best.score, best.score_kind) == ("repairs", 1.5, "inverse-rank")
    assert best.snippet is not None
    assert best.snippet.text == "Call the office."


def test_a_package_s_generator_writes_the_hypotheses(sources: OneProcess) -> None:
    answer = ask(sources, "imagined")
    assert answer.status == "complete"
    assert answer.hits[0].document_id == "repairs"
    assert "echo" in [stage.detail for stage in answer.stages if stage.stage == "hypothesis"]


def test_documents_are_indexed_into_the_first_store_that_takes_them(sources: OneProcess) -> None:
    assert sources.resources.pipeline.capabilities == (
        "db.wiki:read",
        "db.local:read",
        "db.local:write",
        "db.pages:read",
    )
    assert list(sources.resources.writing_store.stores) == ["local"]
