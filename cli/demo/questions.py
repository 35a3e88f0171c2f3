"""The demo's questions about `cli.demo.python_docs`; each shows one reason for asking several branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Shows(StrEnum):
    """What a question shows, as the heading of its screen says it."""

    ONLY_BM25 = "Words: only BM25 finds it"
    ONLY_VECTORS = "Meaning: only vectors find it"
    FUSION = "Agreement: the fusion beats both"
    FILTER = "A filter, the same in every branch"
    NOTHING = "Nothing answers, and it shows"


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    shows: Shows
    text: str
    why: str
    """Shown before the answer."""
    expected: str | None
    """The document that should come first; None if no document has the answer."""
    filters: Mapping[str, str] = field(default_factory=dict)


QUESTIONS = (
    DemoQuestion(
        Shows.ONLY_BM25,
        "nlargest",
        "An exact identifier: one document has the word, and an embedding has never seen it.",
        "python/heapq.nlargest",
    ),
    DemoQuestion(
        Shows.ONLY_VECTORS,
        "scratch folder that vanishes afterwards",
        "A paraphrase: the right document says temporary directory and removed, and shares no word with it.",
        "python/tempfile.TemporaryDirectory",
    ),
    DemoQuestion(
        Shows.FUSION,
        "delete directory tree",
        "Words and meaning each put another document first; the one on which they agree is right.",
        "python/shutil.rmtree",
    ),
    DemoQuestion(
        Shows.FILTER,
        "wait until it is finished",
        "The same words mean threads elsewhere; a filter keeps to one module, in every branch alike.",
        "python/subprocess.Popen.wait",
        {"parent": "subprocess"},
    ),
    DemoQuestion(
        Shows.NOTHING,
        "symptoms of influenza",
        "No search engine should pretend: no word matches, and the nearest passages are far away.",
        None,
    ),
)
