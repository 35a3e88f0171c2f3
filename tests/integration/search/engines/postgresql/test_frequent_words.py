"""Frequent words of a question are looked up for few passages instead of being read, and the ranking is the same."""

from __future__ import annotations

import numpy as np
import pytest

from search.engines.postgresql import searching
from search.protocol import Search
from tests.contracts.store_documents import document
from tests.support.servers.postgresql_server import PostgresqlServer, opened
from tests.support.stores.known_index import index_of


def test_a_ranking_is_the_same_whether_frequent_words_are_looked_up_or_read(
    server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words follow Zipf's law, so that most passages have the most frequent ones."""
    monkeypatch.setattr(searching, "LEAST_CANDIDATES", 5)
    drawn = np.random.default_rng(20_261_129)

    def text(words: int) -> str:
        return " ".join(f"w{rank}" for rank in (drawn.zipf(1.3, words) % 3_000).tolist())

    documents = [document(f"d{n}", text(30), metadata={"third": n % 3}) for n in range(600)]
    questions = [text(int(drawn.integers(2, 16))) for _ in range(60)]
    only_looked_up = searching._TEXT.replace("WHERE NOT EXISTS (SELECT FROM bound)", "WHERE false")
    with server.database() as name, opened(server.url(name), vectors=False) as engine:
        engine.create(index_of())
        engine.write(index_of(), documents, ())
        for filters in ({}, {"third": 1}):
            search = Search(depth=5, timeout_s=60, filters=filters)
            found = engine.search_text("ns", questions, search)
            with monkeypatch.context() as changed:
                changed.setattr(searching, "RARE_SHARE", 0)
                assert engine.search_text("ns", questions, search) == found
            with monkeypatch.context() as changed:
                changed.setattr(searching, "_TEXT", only_looked_up)
                looked_up = engine.search_text("ns", questions, search)
            answered = [pair for pair in zip(looked_up, found, strict=True) if pair[0].hits]
            assert 10 < len(answered) < 60
            assert all(left.hits == right.hits for left, right in answered)
