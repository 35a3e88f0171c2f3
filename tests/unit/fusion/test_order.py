from hypothesis import given
from hypothesis import strategies as st

from fusion.candidates import best_first, rounded, significant

positive = st.floats(1e-9, 1e6)


def test_scores_that_differ_only_by_float_rounding_are_equal_and_those_of_eleven_digits_are_not() -> None:
    tenths = 0.1 + 0.2
    assert tenths != 0.3
    assert best_first({"b": 0.3, "a": tenths}) == [("a", rounded([0.3])[0]), ("b", rounded([0.3])[0])]
    assert [id_ for id_, _ in best_first({"a": 1.0, "b": 1.00000000002})] == ["b", "a"]


@given(positive)
def test_rounding_keeps_twelve_digits(score: float) -> None:
    [kept] = rounded([score])
    assert abs(kept - score) <= score * 2**-40
    assert rounded([kept]) == [kept]


@given(st.lists(positive))
def test_rounded_scores_fall_in_the_same_order(scores: list[float]) -> None:
    ordered = best_first({f"{number:03}": score for number, score in enumerate(scores)})
    shown = [significant(score) for _, score in ordered]
    assert shown == sorted(shown, reverse=True)
