"""The share of words that an embedder knows: how well its vectors fit the language of what is indexed."""

from ingest.language_fit import LEAST_WORDS, known_words


def knows_short_ones(text: str) -> int:
    """A tokenizer that cuts words after six letters."""
    return -(-len(text) // 6)


def test_only_words_of_five_letters_and_more_count_each_as_often_as_it_comes() -> None:
    text = "it is 12.500 known, known, unknown "
    assert known_words([text * LEAST_WORDS], knows_short_ones) == 0.67


def test_a_few_words_say_nothing() -> None:
    assert known_words([], knows_short_ones) is None
    assert known_words(["known " * (LEAST_WORDS - 1)], knows_short_ones) is None
    assert known_words(["known " * LEAST_WORDS], knows_short_ones) == 1.0


def test_scripts_without_spaces_are_left_out() -> None:
    assert known_words(["解雇予告手当 " * LEAST_WORDS], len) is None


def test_words_whose_signs_are_not_in_the_vocabulary_are_not_known() -> None:
    # Such a tokenizer gives one piece for each word that it cannot read.
    assert known_words(["გამარჯობა " * LEAST_WORDS], lambda text: len(text) if text.isascii() else 1) == 0.0


def test_an_encoder_that_counts_words_knows_them_all() -> None:
    assert known_words(["contratto " * LEAST_WORDS], lambda text: 1) == 1.0
