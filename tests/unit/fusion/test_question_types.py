"""The type of a question by its form."""

from __future__ import annotations

import pytest

from fusion.question_terms import QUESTION_TYPES, question_type


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ERR_CONNECTION_RESET", "identifier"),
        ("what does E4711 mean?", "identifier"),
        ("is IL-6 raised in adults", "identifier"),
        ("where is pushState called", "identifier"),
        ("what is rule 10.1.2(a)?", "identifier"),
        ("10:30", "identifier"),
        ("$1,299.00", "identifier"),
        ("C++", "identifier"),
        ("a job with C# or .NET", "identifier"),
        ("192.168.1.1", "identifier"),
        ("2024-03-14", "identifier"),
        ("what is AB 123 4", "identifier"),
        ("os.path.join", "identifier"),
        ("std::vector", "identifier"),
        ("rent deposit", "keyword"),
        ("state-of-the-art batteries 3.5", "keyword"),
        ("inflation 2021", "keyword"),
        ("the strikes of the 1990s", "sentence"),
        ("how do I hand in my notice?", "sentence"),
        ("chi paga le riparazioni?", "sentence"),
        ("what happens to " + "very " * 25 + "long questions", "long"),
        ("", "keyword"),
        # The greatest length takes no time.
        ("a" * 8_192, "keyword"),
        ("1." * 4_096, "keyword"),
    ],
    ids=lambda text: text[:30],
)
def test_the_form_tells_the_type(text: str, kind: str) -> None:
    assert question_type(text) == kind
    assert kind in QUESTION_TYPES
