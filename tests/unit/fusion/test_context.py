"""Passages packed for a language model: within the limit, in reading order, with citations that lead to hits."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from fusion.context import Citation, Context, neighbours, pack
from fusion.fused_hits import FusedHit
from models.documents import PassageText
from tests.unit.fusion.builders import branch, branch_results, fuse_question, hit, plan, request


def words(text: str) -> int:
    return len(text.split())


def passages(*ids: str, words: int = 3) -> dict[str, PassageText]:
    return {
        id_: PassageText(id_, id_.split("#")[0], f"Title {id_[0]}", "", " ".join([f"text-{id_}"] * words), {})
        for id_ in ids
    }


def hits_of(*ids: str) -> list[FusedHit]:
    """A hit for each passage."""
    results = branch_results(bm25=[hit(id_.split("#")[0], int(id_.split("#")[1])) for id_ in ids])
    search = request(fuse_by="passage", top_k=len(ids) or 1)
    return list(fuse_question(plan((branch("bm25"),)), results, 0, search).hits)


def packed(
    *ids: str, limit: int = 1_000, texts: Mapping[str, PassageText] | None = None, rank: int = 1
) -> Context:
    known = passages(*ids) if texts is None else texts
    return pack(hits_of(*ids), known, limit=limit, count=words, first_rank=rank)


def test_blocks_have_the_number_the_title_and_the_text() -> None:
    texts = {
        "a#0": PassageText("a#0", "a", "Rent", "Late > Fees", "Pay.", {}),
        "b#0": PassageText("b#0", "b", "", "", "No.", {}),
    }
    assert packed("a#0", "b#0", texts=texts) == Context(
        "[1] Rent > Late > Fees\nPay.\n\n[2] b\nNo.",
        10,
        (Citation(1, "a", (1,), ("a#0",)), Citation(2, "b", (2,), ("b#0",))),
    )


def test_the_pages_of_a_document_stand_above_its_text_and_in_its_citation() -> None:
    pages = {"a#0": "1-2", "a#1": "3", "a#7": "12"}
    texts = {id_: PassageText(id_, "a", "Rules", "", "Pay.", {}, page) for id_, page in pages.items()}
    context = packed(*pages, texts=texts)
    assert context.text == "[1] Rules, p. 1-3\nPay.\nPay.\n\n[1] Rules, p. 12\nPay."
    assert [citation.pages for citation in context.citations] == ["1-3, 12"]


def test_neighbours_are_merged_and_passages_of_a_document_stand_in_reading_order() -> None:
    context = packed("a#5", "b#0", "a#2", "a#1", "a#10", rank=11)
    blocks = [
        " ".join(line.split()[0] for line in block.splitlines()) for block in context.text.split("\n\n")
    ]
    assert blocks == ["[1] text-a#1 text-a#2", "[1] text-a#5", "[1] text-a#10", "[2] text-b#0"]
    first = Citation(1, "a", (11, 13, 14, 15), ("a#1", "a#2", "a#5", "a#10"))
    assert context.citations == (first, Citation(2, "b", (12,), ("b#0",)))


def test_a_passage_that_does_not_fit_is_left_out_and_the_next_one_is_tried() -> None:
    texts = passages("a#0", "c#0") | passages("b#0", words=100)
    context = packed("a#0", "b#0", "c#0", texts=texts, limit=12)
    assert [(one.number, one.document_id) for one in context.citations] == [(1, "a"), (2, "c")]
    assert (context.tokens, context.left_out) == (12, 1)


def test_the_passages_that_branches_found_besides_come_after_those_of_all_hits() -> None:
    results = branch_results(bm25=[hit("a", 4), hit("b", 0)], vector=[hit("a", 1), hit("b", 0)])
    hits = fuse_question(plan(), results, 0, request()).hits
    texts = passages("a#1", "a#4", "b#0")
    assert pack(hits, texts, limit=12, count=words).citations == (
        Citation(1, "a", (1,), ("a#1",)),
        Citation(2, "b", (2,), ("b#0",)),
    )
    assert pack(hits, texts, limit=18, count=words).citations[0].passage_ids == ("a#1", "a#4")


def test_without_a_text_or_a_hit_or_the_tokens_there_is_no_block() -> None:
    assert packed("a#0", "b#0", texts=passages("b#0")).citations == (Citation(1, "b", (2,), ("b#0",)),)
    assert packed() == Context()
    assert packed("a#0", "b#0", limit=1) == packed("a#0", "b#0", limit=5) == Context(left_out=2)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True, max_size=12),
    st.integers(1, 60),
    st.floats(0.5, 1.5),
)
def test_the_limit_holds_and_every_packed_passage_is_cited_once(
    places: list[tuple[str, int]], limit: int, factor: float
) -> None:
    def count(text: str) -> int:
        """Does not count a whole like its parts."""
        return int(words(text) ** factor)

    ids = [f"{document}#{position}" for document, position in places]
    texts = passages(*ids)
    context = pack(hits_of(*ids), texts, limit=limit, count=count)
    cited = [id_ for one in context.citations for id_ in one.passage_ids]
    assert context.tokens == count(context.text) <= limit
    assert len(cited) == len(set(cited)) == len(ids) - context.left_out
    assert all(texts[id_].text in context.text for id_ in cited)
    assert [one.number for one in context.citations] == list(range(1, len(context.citations) + 1))
    assert all(ids[rank - 1].startswith(one.document_id) for one in context.citations for rank in one.ranks)


def test_neighbours_are_the_nearest_first_and_come_with_what_is_between() -> None:
    nearest = [["a#0", "a#1"], ["b#3", "b#4"], ["b#3", "b#2"]]
    next_ones = [["a#0", "a#1", "a#2"], ["b#3", "b#4", "b#5"], ["b#3", "b#2", "b#1"]]
    assert neighbours(hits_of("a#0", "b#3"), 2) == nearest + next_ones
    # Ids of other sources have none.
    other = FusedHit("x", "x#wiki", 1.0, {}, {}, (), None, None)
    assert neighbours([other], 2) == []
    text = {"x#wiki": PassageText("x#wiki", "x", "X", "", "Said.", {})}
    assert pack([other], text, limit=10, count=words).text == "[1] X\nSaid."


def around(*ids: str, distance: int, limit: int) -> Context:
    known = passages(*(f"{name}#{place}" for name in ("a", "b") for place in range(6)))
    hits = hits_of(*ids)
    return pack(hits, known, limit=limit, count=words, around=neighbours(hits, distance))


def cited_ids(context: Context) -> list[tuple[str, ...]]:
    return [one.passage_ids for one in context.citations]


def test_what_stands_around_the_hits_is_merged_with_them_in_reading_order() -> None:
    context = around("b#2", "a#5", distance=1, limit=100)
    assert cited_ids(context) == [("b#1", "b#2", "b#3"), ("a#4", "a#5")]
    assert [one.ranks for one in context.citations] == [(1,), (2,)]
    assert context.text.count("[1]") == context.text.count("[2]") == 1
    # Between two hits of one document everything is there: one block.
    assert cited_ids(around("b#1", "b#4", distance=2, limit=100)) == [tuple(f"b#{n}" for n in range(6))]


def test_every_hit_comes_before_what_stands_around_the_best_one() -> None:
    # A block takes six words (number, title and text), a passage that is added to one three.
    assert cited_ids(around("b#2", "a#2", distance=5, limit=12)) == [("b#2",), ("a#2",)]
    assert cited_ids(around("b#2", "a#2", distance=5, limit=15)) == [("b#2", "b#3"), ("a#2",)]
    # The passages after and before the best hit, then those of the next hit.
    assert cited_ids(around("b#2", "a#2", distance=5, limit=21)) == [("b#1", "b#2", "b#3"), ("a#2", "a#3")]
    context = around("b#2", "a#2", "b#0", distance=1, limit=6)
    assert (cited_ids(context), context.left_out) == ([("b#2",)], 2)


def test_a_passage_that_does_not_fit_hides_those_behind_it() -> None:
    known = passages("a#0", "a#2") | passages("a#1", words=50)
    hits = hits_of("a#0")
    assert cited_ids(pack(hits, known, limit=30, count=words, around=neighbours(hits, 2))) == [("a#0",)]


def test_a_whole_document_is_added_if_it_fits_and_otherwise_not_at_all() -> None:
    known = passages(*(f"a#{place}" for place in range(4)))
    hits, whole = hits_of("a#1"), [f"a#{place}" for place in range(4)]
    assert cited_ids(pack(hits, known, limit=15, count=words, around=[whole])) == [tuple(whole)]
    assert cited_ids(pack(hits, known, limit=14, count=words, around=[whole])) == [("a#1",)]


@given(st.integers(1, 60), st.integers(0, 6))
def test_a_context_with_neighbours_keeps_the_limit_and_has_no_gaps_around_a_hit(
    limit: int, distance: int
) -> None:
    context = around("a#1", "b#4", distance=distance, limit=limit)
    assert context.tokens == words(context.text) <= limit
    for one in context.citations:
        places = [int(id_.split("#")[1]) for id_ in one.passage_ids]
        assert places == list(range(places[0], places[-1] + 1))
        assert {"a": 1, "b": 4}[one.document_id] in places
