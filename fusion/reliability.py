"""How much the scores of a dense branch count in a namespace, without judgements."""

from __future__ import annotations

KNOWN = 0.65
"""The share of known words from which a language counts as known to the encoder."""
LEAST = 0.03
"""The share of its weight that a dense branch keeps in any language."""
_POWER = 2


def reliability(known_words: float | None) -> float:
    """The factor on the weight of a dense branch: (known words / KNOWN)², between LEAST and 1; 1 if it was not measured.

    Chosen on two collections whose words were made unknown in part (docs/evidence/measurements.md).
    """
    return 1.0 if known_words is None else min(1.0, max(LEAST, (known_words / KNOWN) ** _POWER))
