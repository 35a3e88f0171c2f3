from __future__ import annotations

import math

import numpy as np
import pytest

from inference.model_folder.token_pooling import POOLINGS, pool

# Two texts of three and two tokens, two numbers a token; the last token of the second is padding.
TOKENS = np.array([[[1, 4], [2, 0], [6, 2]], [[3, -1], [5, -3], [99, 99]]], np.float32)
MASK = np.array([[1, 1, 1], [1, 1, 0]], np.float32)
ROOT_2, ROOT_3 = math.sqrt(2), math.sqrt(3)
EXPECTED: dict[str, list[list[float]]] = {
    "mean": [[9 / 3, 6 / 3], [8 / 2, -4 / 2]],
    "cls": [[1, 4], [3, -1]],
    "max": [[6, 4], [5, -1]],
    "mean_sqrt_len_tokens": [[9 / ROOT_3, 6 / ROOT_3], [8 / ROOT_2, -4 / ROOT_2]],
    "weightedmean": [[(1 + 4 + 18) / 6, (4 + 0 + 6) / 6], [(3 + 10) / 3, (-1 - 6) / 3]],
    "lasttoken": [[6, 2], [5, -3]],
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_pooling_gives_the_values_computed_by_hand_and_ignores_padding(pooling: str) -> None:
    assert np.allclose(pool(TOKENS, MASK, pooling), EXPECTED[pooling], atol=1e-6)


def test_combined_poolings_are_concatenated_in_their_order() -> None:
    assert pool(TOKENS, MASK, "max+cls").tolist() == [[6, 4, 1, 4], [5, -1, 3, -1]]
