"""What every store that runs Cypher does with a statement and its values (`search.protocol.RunsCypher`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest

from models.errors import InvalidAnswer, NotConfigured, StageFailure, StoreTimeout, UnknownNamespace
from models.hits import Ranking
from search.protocol import RunsCypher, Search

ENDLESS = (
    "WITH range(1, 1000) AS l UNWIND l AS a WITH a, l "
    "WHERE reduce(b = 0, x IN l | b + reduce(c = 0, y IN l | c + y)) < a RETURN a AS id"
)
"""It needs much time and little memory."""
_HOSTILE = [
    "' OR true //",
    '"}) MATCH (x) DETACH DELETE x //',
    "`}) RETURN 1 //",
    r"\u0027 SET page.x = 1 //",
    "$question {}",
    "x\nMATCH (y) DETACH DELETE y\r\nRETURN 1 AS id\u2028//",
    "*/ UNION MATCH (page) RETURN page.id AS id /*",
    "CALL { MATCH (page) SET page.x = 1 } IN TRANSACTIONS; LOAD CSV FROM 'file:///etc/passwd' AS id RETURN id",
]


class CypherContract(ABC):
    """Inherit with a `store` whose namespace `ns` has the documents `a` (owner `x`, weight 1), `b` (owner `y`, weight 3) and `c`
    (owner `y`, weight 2), and whose namespace `other` has `d` (owner `x`)."""

    page: ClassVar[str]
    """The pattern of a document of `$namespace`, as `page`."""

    @pytest.fixture
    @abstractmethod
    def store(self) -> Any: ...

    def statement(self, columns: str = "") -> str:
        return (
            f"MATCH {self.page}\nWHERE $filter_owner IS NULL OR page.owner IN $filter_owner\n"
            f"RETURN page.id AS id, page.owner AS owner{columns}\nORDER BY page.id LIMIT $limit"
        )

    def ask(
        self,
        store: RunsCypher,
        statement: str = "",
        *values: dict[str, Any],
        namespace: str = "ns",
        score: str | None = None,
        **options: Any,
    ) -> list[list[str]]:
        """The ids for each set of values, by default for one without any."""
        rankings = store.search_cypher(
            namespace,
            statement or self.statement(),
            [{"question": "", "entities": [], "filter_owner": None, **one} for one in values or ({},)],
            Search(**{"depth": 10, "timeout_s": 60.0, **options}),
            score=score,
        )
        return [_ids(ranking) for ranking in rankings]

    def test_rows_rank_in_their_order_or_by_the_score_highest_first(self, store: RunsCypher) -> None:
        assert self.ask(store) == [["a", "b", "c"]]
        scored = self.statement(", page.weight AS weight")
        assert self.ask(store, scored, score="weight") == [["b", "c", "a"]]

    def test_each_set_of_values_has_its_ranking(self, store: RunsCypher) -> None:
        sets: list[dict[str, Any]] = [
            {"filter_owner": ["x"]},
            {"filter_owner": []},
            {"filter_owner": ["y"]},
            {},
        ]
        assert self.ask(store, "", *sets) == [["a"], [], ["b", "c"], ["a", "b", "c"]]

    def test_a_row_of_another_namespace_is_never_found(self, store: RunsCypher) -> None:
        assert self.ask(store, namespace="other") == [["d"]]

    def test_filters_and_exclusions_hold_and_shorten_no_ranking(self, store: RunsCypher) -> None:
        assert self.ask(store, depth=1) == [["a"]]
        assert self.ask(store, depth=1, exclude_ids=["a"]) == [["b"]]
        assert self.ask(store, depth=1, filters={"owner": "y"}) == [["b"]]
        assert self.ask(store, filters={"owner": {"all": ["y", "x"]}}) == [[]]
        assert self.ask(store, filters={"team": "a"}) == [[]]

    @pytest.mark.parametrize("text", _HOSTILE)
    def test_cypher_in_a_value_is_a_value(self, store: RunsCypher, text: str) -> None:
        values = {"question": text, "entities": [text], "filter_owner": [text]}
        named = (
            f"MATCH {self.page} WHERE page.id IN $entities OR $question CONTAINS page.id RETURN page.id AS id"
        )
        assert self.ask(store, "", values) == [[]]
        assert self.ask(store, named, {**values, "question": text.translate(_WITHOUT_IDS)}) == [[]]
        assert self.ask(store) == [["a", "b", "c"]]

    @pytest.mark.parametrize("text", _HOSTILE)
    def test_cypher_in_a_namespace_is_a_name(self, store: RunsCypher, text: str) -> None:
        try:
            ids = self.ask(store, namespace=text)
        except UnknownNamespace:
            ids = [[]]
        assert ids == [[]]
        assert self.ask(store) == [["a", "b", "c"]]

    @pytest.mark.parametrize(
        ("statement", "failure", "words"),
        [
            ("MATCH (page)\nRETURN page.id AS id d", NotConfigured, r"line 2, col(umn)? \d+"),
            ("MATCH (page) RETURN page.owner", InvalidAnswer, "no column 'id'; there are: page.owner"),
            (ENDLESS, StoreTimeout, "did not answer within 2 s"),
        ],
        ids=["syntax", "columns", "endless"],
    )
    def test_a_wrong_statement_fails_with_its_reason(
        self, store: RunsCypher, statement: str, failure: type[StageFailure], words: str
    ) -> None:
        with pytest.raises(failure, match=words):
            self.ask(store, statement, timeout_s=2.0 if statement == ENDLESS else 60.0)

    def test_words_and_vectors_are_refused(self, store: Any) -> None:
        with pytest.raises(NotConfigured, match="answers Cypher alone, from a branch of kind 'graph'"):
            store.search_text("ns", ["a"], Search(depth=1))

    def test_a_score_that_is_no_column_is_named(self, store: RunsCypher) -> None:
        with pytest.raises(InvalidAnswer, match="no column 'nearness'"):
            self.ask(store, score="nearness")


_WITHOUT_IDS = str.maketrans("", "", "abc")


def _ids(ranking: Ranking) -> list[str]:
    return [hit.document_id for hit in ranking.hits]
