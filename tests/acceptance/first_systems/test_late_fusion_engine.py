"""The late-fusion engine: several sources asked side by side, and the weighted mean of their normalised scores.

What a question costs stands in `docs/evidence`, `chorale tune`, `chorale compare` and feedback in `tests/integration`, entry points
in `tests/integration/tasks/test_other_sources.py`, and scores that sources declare in `tests/unit/fusion/test_other_systems.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from chorale_client import Answer, make_request

from config.pipeline_reader import DEFAULT_FILE
from tasks.request.planning.plans import resolve
from tasks.wiring.pipeline import load_pipeline
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import branch, declared
from tests.support.servers.search_server import Handler, SearchServer, says, sends

FIVE_SOURCES = Path(__file__).parents[3] / "examples" / "late_fusion.toml"
WEIGHTS = {"vector": 0.4, "bm25": 0.4, "graph": 0.15, "wikipedia": 0.05, "wikidata": 0.05}
UNKNOWN = 0.1
QUESTION = "Who was Ada Lovelace?"
DOCUMENTS = {
    "lovelace": ("Ada Lovelace", "Ada Lovelace wrote the first program, for the Analytical Engine."),
    "engine": ("Analytical Engine", "The Analytical Engine was designed to be driven by punched cards."),
    "bread": ("Bread", "Bread is baked from flour, water and salt."),
}
NOTES = {"notes": ("Notes", "The translation had notes that were longer than the text itself.")}

# The answers have the nesting of those of en.wikipedia.org and www.wikidata.org, and the fields that the example reads.
WIKIPEDIA = {
    "query": {
        "searchinfo": {"totalhits": 1543},
        "search": [
            {
                "title": "Ada Lovelace",
                "pageid": 974,
                "snippet": 'Augusta <span class="searchmatch">Ada</span> King, Countess of '
                '<span class="searchmatch">Lovelace</span> &amp; mathematician',
                "timestamp": "2026-10-30T18:11:02Z",
            },
            {
                "title": "Ada Lovelace Day",
                "pageid": 26052466,
                "snippet": 'A day named after <span class="searchmatch">Ada</span>',
                "timestamp": "2026-08-02T07:45:30Z",
            },
        ],
    },
}
WIKIDATA = {
    "search": [
        {
            "id": "Q7259",
            "concepturi": "http://www.wikidata.org/entity/Q7259",
            "url": "//www.wikidata.org/wiki/Q7259",
            "label": "Ada Lovelace",
            "description": "English mathematician (1815–1852)",
        }
    ]
}
# Of a wrong parameter, as pymediawiki 0.7.5 has recorded it (tests/mock_requests.json, MIT); its status is 200.
RECORDED_ERROR = {
    "error": {
        "*": "See https://en.wikipedia.org/w/api.php for API usage. Subscribe to the mediawiki-api-announce mailing list at "
        "&lt;https://lists.wikimedia.org/mailman/listinfo/mediawiki-api-announce&gt; for notice of API deprecations and "
        "breaking changes.",
        "code": "invalid-coord",
        "info": "Invalid coordinate provided",
    },
    "servedby": "mw1278",
}


@pytest.fixture(scope="module", autouse=True)
def _documents(here: OneProcess) -> None:
    here.index(DOCUMENTS, namespace="people", source_type="book")


def ask(here: OneProcess, text: str = QUESTION, **options: Any) -> Answer:
    include = ["ids", "metadata", "texts", "snippets", "explanation"]
    usual = {"namespace": "people", "configuration": "late-fusion", "include": include, "cache": "bypass"}
    return here.ask(text, **{**usual, **options})


# The five sources.


class Wikimedia(SearchServer):
    """Answers with what stands under the path of the address."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = self._by_path
        self.answers: dict[str, Any] = {}

    def _by_path(self, handler: Handler) -> None:
        self.answers[urlsplit(handler.path).path](handler)


@pytest.fixture(scope="module")
def wikimedia() -> Iterator[Wikimedia]:
    with Wikimedia() as server:
        yield server


@pytest.fixture(scope="module")
def five(
    here: OneProcess, wikimedia: Wikimedia, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneProcess]:
    """The example, with the addresses of a local server, and without time limits: one process asks one source after the other."""
    text = FIVE_SOURCES.read_text(encoding="utf-8").replace("limit_s = 1\n", "")
    for name, host in (("wikipedia", "en.wikipedia.org"), ("wikidata", "www.wikidata.org")):
        public = f"https://{host}/w/api.php"
        assert public in text
        text = text.replace(public, f"{wikimedia.origin}/{name}")
    file = tmp_path_factory.mktemp("five") / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    with OneProcess(here.server, pipeline_file=file) as sources:
        sources.index(DOCUMENTS, namespace="five")
        sources.index(NOTES, namespace="five", topics=["Ada Lovelace", "Luigi Menabrea"])
        yield sources
        for name in ("wikipedia", "wikidata"):
            sources.resources.store(name).close()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _wikimedia_answers(wikimedia: Wikimedia) -> None:
    wikimedia.answers = {"/wikipedia": says(WIKIPEDIA), "/wikidata": says(WIKIDATA)}
    wikimedia.requests.clear()


def ask_five(five: OneProcess, **options: Any) -> Answer:
    return ask(five, **{"namespace": "five", "top_k": 10, **options})


def test_the_sources_weigh_two_fifths_twice_15_5_and_5_hundredths_and_an_unknown_one_a_tenth() -> None:
    example = load_pipeline(FIVE_SOURCES)
    assert {one.name: one.weight for one in example.branches} == WEIGHTS
    assert example.kinds.method("late-fusion").undeclared_weight == UNKNOWN
    for file in (DEFAULT_FILE, DEFAULT_FILE.with_name("clustered.toml")):
        shipped = load_pipeline(file)
        weights = {one.name: one.weight for one in shipped.branches_of(shipped.configurations["late-fusion"])}
        assert weights == {name: WEIGHTS.get(name, UNKNOWN) for name in weights}


def test_a_knowledge_graph_wikipedia_and_wikidata_stand_in_one_ranking_with_the_texts(
    five: OneProcess,
) -> None:
    answer = ask_five(five)
    assert (answer.status, answer.warnings) == ("complete", ())
    found_by = {one.document_id: set(one.found_by) for one in answer.hits}
    assert found_by["lovelace"] == {"bm25", "vector"}
    assert found_by["notes"] >= {"graph", "vector"}
    assert found_by["wikipedia/974"] == {"wikipedia"}
    assert found_by["wikidata/Q7259"] == {"wikidata"}


def test_entries_of_wikipedia_and_wikidata_have_title_text_moment_and_address(
    five: OneProcess, wikimedia: Wikimedia
) -> None:
    answer = ask_five(five, branches=["wikipedia"])
    [entry, _] = answer.hits
    assert (entry.title, entry.published_at) == ("Ada Lovelace", "2026-10-30T18:11:02Z")
    assert entry.text == "Augusta Ada King, Countess of Lovelace & mathematician"
    assert answer.questions[0].total_matches == 1543
    [entity] = ask_five(five, branches=["wikidata"]).hits
    assert (entity.title, entity.text) == ("Ada Lovelace", "English mathematician (1815–1852)")
    assert entity.url == "http://www.wikidata.org/entity/Q7259"
    searched, fetched = (parse_qs(urlsplit(request.target).query) for request in wikimedia.requests)
    assert (searched["list"], searched["srsearch"]) == (["search"], [QUESTION])
    assert (fetched["action"], fetched["search"]) == (["wbsearchentities"], [QUESTION])
    assert all("example.org" in request.headers["user-agent"] for request in wikimedia.requests)


def test_a_recorded_error_of_wikipedia_costs_its_branch_although_its_status_is_200(
    five: OneProcess, wikimedia: Wikimedia
) -> None:
    wikimedia.answers["/wikipedia"] = says(RECORDED_ERROR)
    answer = ask_five(five)
    assert [(part.where, part.reason) for part in answer.degraded] == [("search.wikipedia", "invalid_answer")]
    assert "wikidata/Q7259" in {one.document_id for one in answer.hits}


def normalised(name: str, score: float | None, rank: int) -> float:
    assert score is not None
    if name.startswith("wiki"):
        return 1 / rank
    return min(1.0, max(0.0, score / 20 if name == "bm25" else score))


def by_hand(branches: Mapping[str, Any], weights: Mapping[str, float]) -> float:
    """The weighted mean over the sources that found it, x (1 + min(1, .2 n)), at most 1."""
    total = sum(weights[name] * normalised(name, one.score, one.rank) for name, one in branches.items())
    mean = total / sum(weights[name] for name in branches)
    return min(1.0, mean * (1 + min(1.0, 0.2 * len(branches))))


def test_a_score_is_the_weighted_mean_over_the_sources_that_found_it_times_the_boost_at_most_1(
    here: OneProcess, five: OneProcess
) -> None:
    """In the shipped pipeline HyDE, which shares its encoder with the vectors, is a source of its own."""
    answer, shipped = ask_five(five), ask(here)
    for one in (*answer.hits, *shipped.hits):
        weights = {**WEIGHTS, "hyde": UNKNOWN}
        assert one.score == pytest.approx(by_hand(one.branches, weights), rel=1e-6), one.document_id
        assert set(one.found_by) == set(one.branches)
        assert one.score_kind == "late-fusion"
        assert sum(branch.contribution for branch in one.branches.values()) == pytest.approx(one.score)
    assert {"bm25", "vector", "hyde"} in [set(one.branches) for one in shipped.hits]
    assert {one.score == 1.0 for one in answer.hits} == {True, False}
    # The second entry of Wikipedia: half of the first one's value, by one source.
    scores = {one.document_id: one.score for one in answer.hits}
    assert scores["wikipedia/26052466"] == pytest.approx(0.5 * 1.2)
    several = [len(one.found_by) > 1 for one in answer.hits]
    assert answer.questions[0].coverage == pytest.approx(sum(several) / len(several), abs=1e-3)


def test_a_source_that_declares_scores_of_bm25_counts_from_0_with_min_max(tmp_path: Path) -> None:
    store = '[stores.web]\nkind = "http"\noptions = { url = "http://127.0.0.1/?q={question}", hits = "hits", id = "id" }\n'
    words = branch("words", kind="http", store="web", more='scores = "bm25"')
    pipeline = declared(tmp_path, store + words + branch("meaning", kind="http", store="web"))
    plan = resolve(make_request("q"), pipeline, accepted_at=datetime.now(UTC), generation=None, models={})
    assert {one.name: one.floor for one in plan.branches} == {"words": 0.0, "meaning": None}


def test_one_source_that_fails_does_not_block_the_others(five: OneProcess, wikimedia: Wikimedia) -> None:
    wikimedia.answers["/wikidata"] = sends(503)
    answer = ask_five(five)
    assert (answer.status, [part.where for part in answer.degraded]) == ("degraded", ["search.wikidata"])
    found_by = {name for one in answer.hits for name in one.found_by}
    assert found_by == WEIGHTS.keys() - {"wikidata"}


def test_a_request_chooses_its_sources_its_strategy_and_its_number_of_results(five: OneProcess) -> None:
    answer = ask_five(five, branches=["bm25", "wikipedia"], fusion="rrf", top_k=2)
    assert (answer.method, len(answer.hits)) == ("rrf", 2)
    assert {name for one in answer.hits for name in one.found_by} <= {"bm25", "wikipedia"}


def test_an_answer_has_content_snippets_confidence_times_strategy_and_a_line_for_each_source(
    here: OneProcess,
) -> None:
    answer = ask(here, context_tokens=200)
    best, question = answer.hits[0], answer.questions[0]
    title, text = DOCUMENTS["lovelace"]
    assert (best.document_id, best.title, best.text, best.source_type) == ("lovelace", title, text, "book")
    assert best.snippet is not None
    marked = [best.snippet.text[start:end] for start, end in best.snippet.highlights]
    assert {"Ada", "Lovelace"} <= set(marked)
    assert question.context is not None
    assert text in question.context.text
    assert question.confidence is not None
    assert 0 <= question.confidence <= 1
    assert answer.took_ms > 0
    assert (question.text, answer.method) == (QUESTION, "late-fusion")
    assert datetime.fromisoformat(answer.ended_at)
    lines = {line.stage: line for line in answer.stages if line.stage.startswith("search.")}
    assert lines.keys() == {"search.bm25", "search.vector", "search.hyde"}
    assert all(line.ms >= 0 and line.n_out for line in lines.values())
