"""The late-fusion engine: several sources asked side by side, and the weighted mean of their normalised scores.

What a question costs stands in `docs/evidence`, `chorale tune`, `chorale compare` and feedback in `tests/integration`, and entry points
in `tests/integration/tasks/test_other_sources.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from chorale_client import Answer

from config.pipeline_reader import DEFAULT_FILE
from models.documents import PassageText
from models.extensions import Kinds, StoreKind
from models.hits import Hit, Ranking
from search.texts_with_hits import TextsWithHits
from tasks.wiring.pipeline import BUILT_IN, load_pipeline
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline_files import LOCAL, branch
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

# The answers have the fields and the nesting of those of en.wikipedia.org and www.wikidata.org.
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
# Two answers of en.wikipedia.org as pymediawiki 0.7.5 has recorded them (tests/mock_requests.json, MIT): of a search without
# snippets (srprop=), and of a wrong parameter, which has the status 200.
RECORDED_SEARCH = {
    "batchcomplete": "",
    "continue": {"continue": "-||", "sroffset": 3},
    "query": {
        "search": [
            {"ns": 0, "pageid": 1962418, "title": "Chess set"},
            {"ns": 0, "pageid": 12051255, "title": "Staunton chess set"},
            {"ns": 0, "pageid": 43173914, "title": "Dubrovnik chess set"},
        ],
        "searchinfo": {"totalhits": 8006},
    },
}
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


def test_a_recorded_search_of_wikipedia_is_read_in_its_order(five: OneProcess, wikimedia: Wikimedia) -> None:
    wikimedia.answers["/wikipedia"] = says(RECORDED_SEARCH)
    answer = ask_five(five, branches=["wikipedia"])
    assert [(one.document_id, one.title) for one in answer.hits] == [
        ("wikipedia/1962418", "Chess set"),
        ("wikipedia/12051255", "Staunton chess set"),
        ("wikipedia/43173914", "Dubrovnik chess set"),
    ]
    assert (answer.status, answer.questions[0].total_matches) == ("complete", 8006)


def test_a_recorded_error_of_wikipedia_costs_its_branch_although_its_status_is_200(
    five: OneProcess, wikimedia: Wikimedia
) -> None:
    wikimedia.answers["/wikipedia"] = says(RECORDED_ERROR)
    answer = ask_five(five)
    assert [(part.where, part.reason) for part in answer.degraded] == [("search.wikipedia", "invalid_answer")]
    assert "wikidata/Q7259" in {one.document_id for one in answer.hits}


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


@pytest.mark.parametrize("failing", ["wikipedia", "wikidata"])
def test_one_source_that_fails_does_not_block_the_others(
    five: OneProcess, wikimedia: Wikimedia, failing: str
) -> None:
    wikimedia.answers[f"/{failing}"] = sends(503)
    answer = ask_five(five)
    assert (answer.status, [part.where for part in answer.degraded]) == ("degraded", [f"search.{failing}"])
    found_by = {name for one in answer.hits for name in one.found_by}
    assert found_by == WEIGHTS.keys() - {failing}


def test_sources_are_asked_side_by_side(five: OneProcess) -> None:
    """Each has a queue of its own, and none waits for the answer of another."""
    request_id = five.submit(QUESTION, namespace="five", cache="bypass")
    assert {name: five.redis.llen(f"chorale.{name}") for name in WEIGHTS} == dict.fromkeys(WEIGHTS, 1)
    five.work()
    assert five.answer(request_id).status == "complete"


def test_a_request_chooses_its_sources_its_strategy_and_its_number_of_results(five: OneProcess) -> None:
    answer = ask_five(five, branches=["bm25", "wikipedia"], fusion="rrf", top_k=2)
    assert (answer.method, len(answer.hits)) == ("rrf", 2)
    assert {name for one in answer.hits for name in one.found_by} <= {"bm25", "wikipedia"}


def test_a_result_names_what_its_sources_gave_it(five: OneProcess) -> None:
    for one in ask_five(five).hits:
        assert set(one.found_by) == set(one.branches)
        assert one.score_kind == "late-fusion"
        contributions = sum(branch.contribution for branch in one.branches.values())
        assert contributions == pytest.approx(one.score)


def test_the_coverage_is_the_share_of_hits_that_several_sources_found(five: OneProcess) -> None:
    answer = ask_five(five)
    several = [len(one.found_by) > 1 for one in answer.hits]
    assert answer.questions[0].coverage == pytest.approx(sum(several) / len(several), abs=1e-3)


# Scores of search engines that answer over HTTP.

SCORES = """
[stores.{name}]
kind = "http"
options = {{ url = "{url}/{name}?q={{question}}", hits = "hits", id = "id", score = "score", id_prefix = "" }}
"""
TYPED = """
[configurations.late-fusion]
method = "late-fusion"
[configurations.typed]
method = "rrf"
[configurations.typed.weights_by_type]
identifier = { words = 0.8, meaning = 0.1 }
keyword = { words = 0.6, meaning = 0.2 }
"""


@pytest.fixture(scope="module")
def engines(
    here: OneProcess, wikimedia: Wikimedia, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneProcess]:
    """Two engines over HTTP: `words` declares that its scores are BM25's, and `meaning` has a cosine; `memo` is one's own."""
    lines = [LOCAL, TYPED, '[stores.memo]\nkind = "memo"\n']
    lines += [SCORES.format(name=name, url=wikimedia.origin) for name in ("words", "meaning")]
    lines += [
        branch("words", kind="http", store="words", more='weight = 0.4\nscores = "bm25"'),
        branch("meaning", kind="http", store="meaning", more="weight = 0.4"),
        branch("memo", kind="bm25", store="memo"),
    ]
    file = tmp_path_factory.mktemp("engines") / "pipeline.toml"
    file.write_text("".join(lines), encoding="utf-8")
    kinds = BUILT_IN | Kinds(stores={"memo": StoreKind(lambda name, options: Memo())})
    with OneProcess(here.server, pipeline_file=file, kinds=kinds) as pipeline:
        pipeline.index(DOCUMENTS, namespace="engines")
        yield pipeline
        for name in ("words", "meaning"):
            pipeline.resources.store(name).close()  # type: ignore[attr-defined]


class Memo(TextsWithHits):
    """An engine of one's own: what it must know is how to search."""

    def search_text(self, namespace: str, texts: list[str], search: Any) -> list[Ranking]:
        text = PassageText("memo#0", "memo", "Memo", "", "Call the engine room.", {})
        return [Ranking((Hit("memo#0", "memo", 10.0),), texts={"memo#0": text}) for _ in texts]


def scores_of(
    engines: OneProcess, wikimedia: Wikimedia, given: Mapping[str, Mapping[str, float]], **options: Any
) -> dict[str, float]:
    """By document the fused score of what the engines give."""
    for name, scores in given.items():
        hits = [{"id": id_, "score": score} for id_, score in scores.items()]
        wikimedia.answers[f"/{name}"] = says({"hits": hits})
    answer = ask(engines, namespace="engines", branches=list(given), **options)
    assert answer.status == "complete"
    return {one.document_id: one.score for one in answer.hits}


@pytest.mark.parametrize(("meaning", "words", "expected"), [(0.9, 0.88, 0.661), (0.8, 0.8, 0.588)])
def test_the_two_fixed_cases(
    engines: OneProcess, wikimedia: Wikimedia, meaning: float, words: float, expected: float
) -> None:
    given = {"meaning": {"x": meaning}, "words": {"x": words}}
    assert scores_of(engines, wikimedia, given)["x"] == pytest.approx(expected, abs=5e-4)


def test_bm25_is_divided_by_20_over_http_too_if_the_branch_declares_it_and_a_cosine_is_clamped(
    engines: OneProcess, wikimedia: Wikimedia
) -> None:
    scores = scores_of(engines, wikimedia, {"words": {"a": 37.0, "b": 10.0, "c": 0.88}})
    assert scores == pytest.approx({"a": 1.0, "b": 10 / 20 * 1.2, "c": 0.88 / 20 * 1.2})
    scores = scores_of(engines, wikimedia, {"meaning": {"a": 1.7, "b": 0.5, "c": -0.3}})
    assert scores == pytest.approx({"a": 1.0, "b": 0.5 * 1.2, "c": 0.0})


def test_declared_bm25_scores_count_from_0_with_min_max(engines: OneProcess, wikimedia: Wikimedia) -> None:
    """The last hit has 5 / 20 of the first one's value; a cosine's last hit has none."""
    given = {"a": 20.0, "b": 5.0}
    assert scores_of(engines, wikimedia, {"words": given}, fusion="min-max")["b"] == pytest.approx(0.4 * 0.25)
    assert scores_of(engines, wikimedia, {"meaning": given}, fusion="min-max")["b"] == 0.0


def test_weights_follow_the_type_of_the_question(engines: OneProcess, wikimedia: Wikimedia) -> None:
    wikimedia.answers |= dict.fromkeys(["/words", "/meaning"], says({"hits": [{"id": "x", "score": 1}]}))
    weights = {}
    for text in ("IL-6", "punched cards", "who drove the engine with punched cards?"):
        answer = ask(engines, text, namespace="engines", configuration="typed", branches=["words", "meaning"])
        weights[text] = [answer.hits[0].branches[name].weight for name in ("words", "meaning")]
    assert list(weights.values()) == [[0.8, 0.1], [0.6, 0.2], [0.4, 0.4]]


def test_an_engine_of_ones_own_is_a_source(engines: OneProcess) -> None:
    answer = ask(engines, namespace="engines", branches=["memo"])
    [memo] = answer.hits
    assert (memo.text, memo.found_by) == ("Call the engine room.", ("memo",))
    assert memo.score == pytest.approx(10 / 20 * 1.2)


# The result.


def test_a_result_has_content_title_score_type_metadata_and_a_snippet_that_fits_the_query(
    here: OneProcess,
) -> None:
    best = ask(here).hits[0]
    title, text = DOCUMENTS["lovelace"]
    assert (best.document_id, best.title, best.text, best.source_type) == ("lovelace", title, text, "book")
    assert best.snippet is not None
    marked = [best.snippet.text[start:end] for start, end in best.snippet.highlights]
    assert {"Ada", "Lovelace"} <= set(marked)


def test_the_answer_has_fused_content_confidence_time_query_strategy_and_moment(here: OneProcess) -> None:
    answer = ask(here, context_tokens=200)
    question = answer.questions[0]
    assert question.context is not None
    assert DOCUMENTS["lovelace"][1] in question.context.text
    assert question.confidence is not None
    assert 0 <= question.confidence <= 1
    assert answer.took_ms > 0
    assert (question.text, answer.method) == (QUESTION, "late-fusion")
    assert datetime.fromisoformat(answer.ended_at)


def test_each_source_has_a_line_of_its_own_with_its_time_and_its_number_of_hits(here: OneProcess) -> None:
    lines = {line.stage: line for line in ask(here).stages if line.stage.startswith("search.")}
    assert lines.keys() == {"search.bm25", "search.vector", "search.hyde"}
    assert all(line.ms >= 0 and line.n_out for line in lines.values())
