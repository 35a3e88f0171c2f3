"""The late-fusion engine: several sources asked side by side, and the weighted mean of their normalised scores.

What a question costs stands in `docs/evidence`, `chorale tune` and `chorale eval compare` in `tests/integration`, and entry points in
`tests/integration/tasks/test_other_sources.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from chorale_client import Answer

from config.pipeline_reader import DEFAULT_FILE
from tests.support.pipelines.one_process import OneProcess
from tests.support.servers.search_server import Handler, SearchServer, says
from wiring.pipeline import load_pipeline

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

# The answers have the form that the documentation of the two interfaces shows.
WIKIPEDIA = {
    "batchcomplete": "",
    "continue": {"sroffset": 2, "continue": "-||"},
    "query": {
        "searchinfo": {"totalhits": 1543},
        "search": [
            {
                "ns": 0,
                "title": "Ada Lovelace",
                "pageid": 974,
                "size": 94105,
                "wordcount": 9612,
                "snippet": 'Augusta <span class="searchmatch">Ada</span> King, Countess of '
                '<span class="searchmatch">Lovelace</span> &amp; mathematician',
                "timestamp": "2026-10-30T18:11:02Z",
            },
            {
                "ns": 0,
                "title": "Ada Lovelace Day",
                "pageid": 26052466,
                "size": 8021,
                "wordcount": 702,
                "snippet": 'A day named after <span class="searchmatch">Ada</span>',
                "timestamp": "2026-08-02T07:45:30Z",
            },
        ],
    },
}
WIKIDATA = {
    "searchinfo": {"search": QUESTION},
    "search": [
        {
            "id": "Q7259",
            "title": "Q7259",
            "pageid": 8434,
            "concepturi": "http://www.wikidata.org/entity/Q7259",
            "repository": "wikidata",
            "url": "//www.wikidata.org/wiki/Q7259",
            "display": {
                "label": {"value": "Ada Lovelace", "language": "en"},
                "description": {"value": "English mathematician (1815–1852)", "language": "en"},
            },
            "label": "Ada Lovelace",
            "description": "English mathematician (1815–1852)",
            "match": {"type": "label", "language": "en", "text": "Ada Lovelace"},
        }
    ],
    "search-continue": 1,
    "success": 1,
}


@pytest.fixture(scope="module", autouse=True)
def _documents(here: OneProcess) -> None:
    here.index(DOCUMENTS, namespace="people", source_type="book")


def ask(here: OneProcess, text: str = QUESTION, **options: Any) -> Answer:
    include = ["ids", "metadata", "texts", "snippets", "explanation"]
    usual = {"namespace": "people", "configuration": "late-fusion", "include": include, "cache": "bypass"}
    return here.ask(text, **{**usual, **options})


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
    wikimedia.asked.clear()


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


def test_an_entry_of_wikipedia_has_its_title_its_snippet_and_its_moment(
    five: OneProcess, wikimedia: Wikimedia
) -> None:
    answer = ask_five(five, branches=["wikipedia"])
    [entry, _] = answer.hits
    assert (entry.title, entry.published_at) == ("Ada Lovelace", "2026-10-30T18:11:02Z")
    assert entry.text == "Augusta Ada King, Countess of Lovelace & mathematician"
    assert answer.questions[0].total_matches == 1543
    [asked] = wikimedia.asked
    parameters = parse_qs(urlsplit(asked.target).query)
    assert parameters["srsearch"] == [QUESTION]
    assert parameters["list"] == ["search"]
    assert "example.org" in asked.headers["user-agent"]


def test_an_entity_of_wikidata_has_its_label_its_description_and_its_address(
    five: OneProcess, wikimedia: Wikimedia
) -> None:
    [entity] = ask_five(five, branches=["wikidata"]).hits
    assert (entity.title, entity.text) == ("Ada Lovelace", "English mathematician (1815–1852)")
    assert entity.url == "http://www.wikidata.org/entity/Q7259"
    [asked] = wikimedia.asked
    parameters = parse_qs(urlsplit(asked.target).query)
    assert (parameters["action"], parameters["search"]) == (["wbsearchentities"], [QUESTION])


def normalised(name: str, score: float | None, rank: int) -> float:
    assert score is not None
    if name.startswith("wiki"):
        return 1 / rank
    return min(1.0, max(0.0, score / 20 if name == "bm25" else score))


def by_hand(branches: Mapping[str, Any], weights: Mapping[str, float]) -> float:
    """The weighted mean over the sources that found it, x (1 + min(1, .2 n)), at most 1."""
    worth = sum(weights[name] * normalised(name, one.score, one.rank) for name, one in branches.items())
    mean = worth / sum(weights[name] for name in branches)
    return min(1.0, mean * (1 + min(1.0, 0.2 * len(branches))))


def test_a_score_is_the_weighted_mean_over_the_sources_that_found_it_times_the_boost_at_most_1(
    five: OneProcess,
) -> None:
    hits = ask_five(five).hits
    for one in hits:
        assert one.score == pytest.approx(by_hand(one.branches, WEIGHTS), rel=1e-6), one.document_id
    assert {one.score == 1.0 for one in hits} == {True, False}
    # The second entry of Wikipedia: half of the first one's value, by one source.
    assert {one.document_id: one.score for one in hits}["wikipedia/26052466"] == pytest.approx(0.5 * 1.2)


def test_every_source_counts_for_the_boost_with_the_shipped_pipeline_too(here: OneProcess) -> None:
    """HyDE shares its encoder with the vectors, and is a source of its own."""
    weights = {**WEIGHTS, "hyde": UNKNOWN}
    hits = ask(here).hits
    assert {"bm25", "vector", "hyde"} in [set(one.branches) for one in hits]
    for one in hits:
        assert one.score == pytest.approx(by_hand(one.branches, weights), rel=1e-6)


def test_sources_are_asked_side_by_side(five: OneProcess) -> None:
    """Each has a queue of its own, and none waits for the answer of another."""
    request_id = five.submit(QUESTION, namespace="five", cache="bypass")
    assert {name: five.redis.llen(f"chorale.{name}") for name in WEIGHTS} == dict.fromkeys(WEIGHTS, 1)
    five.work()
    assert five.answer(request_id).status == "complete"
