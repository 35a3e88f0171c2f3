"""The end of a ranking of a server's hits."""

from __future__ import annotations

from models.hits import Hit
from search.ranking_end import cut_warnings


def test_a_ranking_that_a_server_cuts_says_how_many_documents_are_missing() -> None:
    hits = [Hit(f"d{place % 2}#{place}", f"d{place % 2}", 1.0) for place in range(10)]
    said = ("depth: 2 documents instead of 3: the store returns at most 10 passages",)
    assert cut_warnings(hits, depth=3, most=10) == said
    assert cut_warnings(hits, depth=2, most=10) == ()
    assert cut_warnings(hits, depth=3, most=11) == (), "the store has no more"
