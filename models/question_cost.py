"""What the texts of questions cost the workers, in estimated seconds of one core with the default model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from chorale_client.request import Question

TEXT_S, CHARACTER_S, MOST_CHARACTERS = 0.001, 28e-6, 1_600
"""The time to embed a text; a model reads 256 word pieces of it at most."""
ORDINARY_S = 0.25
"""One question with its rewrites and hypothetical documents costs less than this, unless they are long."""
LINE_S = 0.003
"""The time to embed a question of 70 characters: an ordinary line of a job."""


def embedding_s(texts: Iterable[str]) -> float:
    """Seconds to embed these texts."""
    return sum(TEXT_S + CHARACTER_S * min(len(text), MOST_CHARACTERS) for text in texts)


def questions_s(questions: Sequence[Question]) -> float:
    """Seconds to embed everything that these questions bring."""
    return sum(
        embedding_s([one.text, *(variant.text for variant in one.variants), *one.hypothetical_documents])
        for one in questions
    )


def calls(questions: Sequence[Question]) -> int:
    """For how many ordinary calls a call with these questions counts: one, or one for each quarter of a second."""
    return max(1, math.ceil(questions_s(questions) / ORDINARY_S))


def lines(questions: Sequence[Question]) -> float:
    """For how many ordinary lines of a job a line with these questions counts: at least one."""
    return max(1.0, questions_s(questions) / LINE_S)
