"""Turning text into terms: one way for each language, for documents and questions, and therefore for every engine.

The terms are those of the words that a person reads (`models.texts.readable_text`), and a whole for each identifier
(`models.texts.identifiers`).  Scripts without spaces become bigrams of characters first (as Elasticsearch's `cjk` does), since tantivy
would take a whole sentence for one word.  Accents are folded after stemming, because the stemmer needs them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import tantivy

from models.documents import Document, Manifest
from models.errors import WrongDeclaration
from models.hits import MAX_TERMS
from models.texts.identifiers import Forms, forms
from models.texts.readable_text import UNSPACED, clusters, readable

ANALYSER = "chorale-lexical-2"
"""Name and version of what makes terms, kept in the manifest: a new version needs a new index."""

MIN_TITLE_WORDS = 3
"""Titles of at least this many content words (no numbers) count twice: SciFact +.006, FeedbackQA +.024 in nDCG@10."""

# tantivy's names.  It has stemmers for more languages than stop-word lists.
_STEMMERS: Mapping[str, str] = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
_WITHOUT_STOP_WORDS = frozenset({"ar", "el", "ro", "ta", "tr"})
LANGUAGES = (*_STEMMERS, "none")
"""`none`: no stemming; words become lower-case and lose their accents."""

_WORDS = r"[\p{Alphabetic}\p{M}\p{N}]+|\p{Regional_Indicator}{2}|\p{Extended_Pictographic}"
"""Words, in which a virama joins as a letter does, and emoji."""
# Accents that no letter is composed with: stress in Russian.
_LEFT_ACCENTS = dict.fromkeys(range(0x300, 0x370))

# Longer words are dropped.  tantivy's own limit of 40 bytes would drop hashes and long names.
_MAX_WORD_BYTES = 255


@lru_cache
def analyser(language: str) -> tantivy.TextAnalyzer:
    """Raises WrongDeclaration naming the known languages."""
    if language not in LANGUAGES:
        raise WrongDeclaration(
            f"no analyser for language {language!r}; there are: {', '.join(LANGUAGES)}; none serves every other language "
            "(zh, ja, ko, th, vi, hi, …)"
        )
    chain = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(_WORDS))
    chain = chain.filter(tantivy.Filter.remove_long(_MAX_WORD_BYTES)).filter(tantivy.Filter.lowercase())
    if language != "none":
        if language not in _WITHOUT_STOP_WORDS:
            chain = chain.filter(tantivy.Filter.stopword(_STEMMERS[language]))
        chain = chain.filter(tantivy.Filter.stemmer(_STEMMERS[language]))
    return chain.filter(tantivy.Filter.ascii_fold()).build()


def prepared(text: str, *, is_question: bool = False) -> str:
    """The analyser's input: readable and composed (NFKC), unspaced scripts as bigrams, and words inside of words at the end.

    A text also has each character of a run, which a question of one character looks for.
    """
    return _prepared(*_read(text), is_question=is_question)


def _read(text: str) -> tuple[str, Forms]:
    read = unicodedata.normalize("NFKC", readable(text)[0])
    read = read if read.isascii() else read.translate(_LEFT_ACCENTS)
    return read, forms(read)


def _prepared(read: str, text_forms: Forms, *, is_question: bool = False) -> str:
    def spaced(run: re.Match[str]) -> str:
        signs = run[0]  # once, since each access copies a run of megabytes
        units = [signs[start:end] for start, end in clusters(signs)]
        pairs = ["".join(pair) for pair in pairwise(units)]
        return f" {' '.join((pairs or units) if is_question else (*pairs, *units))} "

    # A question for `getUserName` has one word: with those inside of it the name would count several times.
    words = [word for word, start, end in text_forms.words if not (is_question and read[start:end].isalpha())]
    whole = " ".join([read, *words])
    return whole if whole.isascii() else UNSPACED.sub(spaced, whole)


def terms(text: str, language: str, *, is_question: bool = False) -> list[str]:
    """The terms of words, then the wholes of identifiers; no term has white space."""
    read, text_forms = _read(text)
    words = analyser(language).analyze(_prepared(read, text_forms, is_question=is_question))
    return [*words, *_wholes(read, text_forms)]


def _wholes(read: str, text_forms: Forms) -> list[str]:
    """The wholes that are no words already, as `CloudWay` is."""
    return [one.whole for one in text_forms.identifiers if not read[one.start : one.end].isalpha()]


def question_terms(text: str, language: str) -> dict[str, int]:
    """The number of occurrences of each of the first MAX_TERMS distinct terms."""
    counts = Counter(terms(text, language, is_question=True))
    return dict(list(counts.items())[:MAX_TERMS])


def for_server(text: str, *, is_question: bool = False) -> str:
    """For an analyser of a server's own: the wholes of identifiers are words for those that follow Unicode (`standard`)."""
    read, text_forms = _read(text)
    return " ".join([_prepared(read, text_forms, is_question=is_question), *_wholes(read, text_forms)])


@dataclass(frozen=True, slots=True)
class IndexedTexts:
    """What text search looks at, as terms with spaces between them or as text for a server's analyser."""

    passages: Sequence[str]
    """Of each passage: the title, repeated by its weight, then heading and text."""
    document: str
    """The title, repeated by its weight, and the texts of all passages, which contain their headings."""


def indexed_texts(
    document: Document, manifest: Manifest, made: Callable[[str], str] | None = None
) -> IndexedTexts:
    """`made` prepares a text for a server's analyser; without it the texts are terms."""
    if made is None:

        def made(text: str) -> str:
            return " ".join(terms(text, manifest.language))

    titles = [made(document.title)] * _title_repeats(document.title, manifest)
    texts = [made(passage.text) for passage in document.passages]
    headings = {heading: made(heading) for heading in {passage.heading for passage in document.passages}}
    return IndexedTexts(
        [
            "\n".join([*titles, headings[passage.heading], text])
            for passage, text in zip(document.passages, texts, strict=True)
        ],
        "\n".join([*titles, *texts]),
    )


def _title_repeats(title: str, manifest: Manifest) -> int:
    if manifest.title_repeats != "auto":
        return int(manifest.title_repeats)
    words = [term for term in analyser(manifest.language).analyze(prepared(title)) if not term.isnumeric()]
    return 2 if len(words) >= MIN_TITLE_WORDS else 1
