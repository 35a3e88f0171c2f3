"""The questions for which a language model writes no hypothesis."""

from __future__ import annotations

import re

_WORD = re.compile(r"\S+")
_IDENTIFIER = re.compile(
    r"""(?=.*\d)(?=.*[^\W\d_]|.*[-_./:]).{3,}   # ERR-4711, CVE-2024-1234, 0x80070005, 2024/123, A4.1
      | [^\W_]+(?:_+[^\W_]+)+ | [a-z]+[A-Z]\w*  # snake_case, camelCase
      | \w[\w-]+(?:\.\w[\w-]+)+(?:\(\))?        # module.name, file.toml
      | \d{5,}""",
    re.VERBOSE,
)
MOST_OTHER_WORDS = 2
"""`error ERR-4711 meaning` is about the identifier; with more other words the question has a meaning of its own."""


def skip_rule(text: str, *, skip_identifiers: bool = True, max_words: int = 64) -> str | None:
    """Why no hypothesis is written for this question, or None.

    A model knows nothing about an identifier (an error code, a name in a program) and would invent an answer.  A question
    of more than `max_words` words already resembles a passage.
    """
    words = [word.strip("\"'`“”„«»()[]?!,;.") for word in _WORD.findall(text)]
    words = [word for word in words if word]
    if len(words) > max_words:
        return f"long: {len(words)} words"
    identifiers = [word for word in words if _IDENTIFIER.fullmatch(word)]
    if skip_identifiers and identifiers and len(words) - len(identifiers) <= MOST_OTHER_WORDS:
        return "identifier-like"
    return None
