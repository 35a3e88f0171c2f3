"""What is said where an encoder hardly knows the words of a namespace (`ingest.language_fit` measures the share)."""

from __future__ import annotations

from chorale_client.wire_names import Warned

HARDLY_KNOWN = 0.5
"""Below this share of known words, vectors have at most .59 of their weight (`fusion.rankings.reliability`)."""
ADVICE = (
    "declare an encoder that knows the language (`chorale models`, docs/guides/models.md), and embed the namespace with it: "
    "`chorale namespaces rebuild NAME --encoder ENCODER`"
)


def knows_language(known_words: float | None) -> bool:
    """Whether vectors of an encoder that knows this share of the words say what they were measured to say; so they do where
    nobody measured it."""
    return known_words is None or known_words >= HARDLY_KNOWN


def hardly_known(namespace: str, known_words: float | None) -> str | None:
    """The sentence for this share; None if the encoder knows the language, or nobody measured it."""
    if known_words is None or knows_language(known_words):
        return None
    return f"namespace {namespace!r}: its encoder knows {known_words:.0%} of the words, so vectors say little"


def is_about_language(warning: str) -> bool:
    """Whether this warning of an answer is true of the whole namespace, whatever was asked."""
    return warning.startswith(f"{Warned.LANGUAGE}:")
