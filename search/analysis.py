"""Turning text into terms: one analyser for each language, used for documents and questions.

CJK characters become bigrams first (as Elasticsearch's `cjk` does), since tantivy would take a whole sentence for
one word.  Accents are folded after stemming, because the stemmer needs them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import tantivy

from models.documents import Manifest
from models.errors import WrongDeclaration
from models.hits import MAX_TERMS

ANALYSER = "chorale-lexical-1"
"""Name and version of the chain below, kept in the manifest: a new version needs a new index."""

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

_CJK_RUN = re.compile(
    "[\u3005\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)

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
    chain = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    chain = chain.filter(tantivy.Filter.remove_long(_MAX_WORD_BYTES)).filter(tantivy.Filter.lowercase())
    if language != "none":
        if language not in _WITHOUT_STOP_WORDS:
            chain = chain.filter(tantivy.Filter.stopword(_STEMMERS[language]))
        chain = chain.filter(tantivy.Filter.stemmer(_STEMMERS[language]))
    return chain.filter(tantivy.Filter.ascii_fold()).build()


def prepared(text: str) -> str:
    """The analyser's input: composed characters (NFKC), CJK runs as bigrams."""
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CJK_RUN.sub(_bigrams, unicodedata.normalize("NFKC", text))


def _bigrams(run: re.Match[str]) -> str:
    text = run.group()
    pairs = [text[i : i + 2] for i in range(len(text) - 1)] or [text]
    return f" {' '.join(pairs)} "


def question_terms(text: str, language: str) -> dict[str, int]:
    """The number of occurrences of each of the first MAX_TERMS distinct terms, in order of first appearance."""
    counts = Counter(analyser(language).analyze(prepared(text)))
    return dict(list(counts.items())[:MAX_TERMS])


def indexed_text(title: str, heading: str, text: str, manifest: Manifest) -> str:
    """The one field that text search looks at: the title, repeated by its weight, then heading and text."""
    if manifest.title_repeats == "auto":
        terms = analyser(manifest.language).analyze(prepared(title))
        words = [term for term in terms if not term.isnumeric()]
        repeats = 2 if len(words) >= MIN_TITLE_WORDS else 1
    else:
        repeats = int(manifest.title_repeats)
    return prepared("\n".join([*[title] * repeats, heading, text]))
