"""The type of a question by its form, for configurations that weigh branches by it.

An identifier is a word with a digit and a letter (`IL-6`, `E1042`), with an underscore, with a capital inside (`pushState`),
or digits in three or more parts (`10.1.2`).  Languages written without spaces have long words here: their questions count
as `keyword`.
"""

from __future__ import annotations

import re

from fusion.stop_words import STOP_WORDS

IDENTIFIER, KEYWORD, SENTENCE, LONG = "identifier", "keyword", "sentence", "long"
QUESTION_TYPES = (IDENTIFIER, KEYWORD, SENTENCE, LONG)

_LONGEST_SENTENCE = 25
_WORD = re.compile(r"[^\W_]+(?:['’\-_./:][^\W_]+)*|\w+")
_IDENTIFIER = re.compile(
    r"(?=.*\d)(?=.*[^\W\d_]).+"  # a digit and a letter
    r"|.*_.*"
    r"|.*[a-z][A-Z].*"
    r"|\d+(?:[.:/\-]\d+){2,}"  # digits in three or more parts
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)


def question_type(text: str) -> str:
    """One of QUESTION_TYPES.

    `long`: more than 25 words; `identifier`: a word of it is one; `keyword`: no word such as `the` or `what` among the
    others; `sentence`: the rest.
    """
    words = _WORD.findall(text)
    if len(words) > _LONGEST_SENTENCE:
        return LONG
    if any(_IDENTIFIER.fullmatch(word) and not _ORDINAL.fullmatch(word) for word in words):
        return IDENTIFIER
    return SENTENCE if any(word.casefold() in STOP_WORDS for word in words) else KEYWORD
