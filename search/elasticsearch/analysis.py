"""What a namespace's words are: our own chain of terms, or an analyser of the server's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from models.documents import Manifest
from search.analysis import MAX_TERMS, analyser, prepared, question_terms
from search.elasticsearch.filter_conditions import Clause
from search.title_weight import indexed_text

OWN = "chorale"
TEXT = "text"
"""The one field of words: title, heading and text."""

# A server's tokenizer takes each of these for a term; of CJK characters each one may be one.
_WORD = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W\u2e80-\u9fff]+")


# Marks of direction, which `standard` takes into a word; our own tokenizer splits at them.
_MARKS = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF], " ")


@dataclass(frozen=True, slots=True)
class Words:
    """How texts are indexed and asked for; made from what the namespace was built with.

    `declared` is the option `analyser`.  With our own chain the index gets terms with spaces between them, so that
    every language, on any server, has the terms, and the scores, of the embedded store; where passages have no term at
    all (stop words alone), which Elasticsearch does not count among the documents, scores are lower.
    """

    declared: str | Mapping[str, Any]
    manifest: Manifest

    @property
    def is_own(self) -> bool:
        return self.declared == OWN

    @property
    def settings(self) -> dict[str, Any]:
        """`settings.analysis` of the index."""
        return {} if isinstance(self.declared, str) else {"analysis": dict(self.declared)}

    @property
    def mapping(self) -> dict[str, Any]:
        """Of the field TEXT; without positions, since nothing asks for phrases."""
        name = "whitespace" if self.is_own else self.declared if isinstance(self.declared, str) else OWN
        return {"type": "text", "analyzer": name, "index_options": "freqs"}

    def indexed(self, title: str, heading: str, text: str) -> str:
        """The one field that is searched: title (once, twice, or as the manifest says), heading, text."""
        whole = indexed_text(title, heading, text, self.manifest)
        if self.is_own:
            return " ".join(analyser(self.manifest.language).analyze(whole))
        return whole.translate(_MARKS)

    def asked(self, text: str) -> Clause | None:
        """The query for a question, None where it has no term; the first MAX_TERMS terms count."""
        if self.is_own:
            terms = question_terms(text, self.manifest.language)
            should = [
                {"term": {TEXT: {"value": term, "boost": float(count)} if count > 1 else {"value": term}}}
                for term, count in terms.items()
            ]
            return {"bool": {"should": should}} if should else None
        whole = prepared(text).translate(_MARKS)
        beyond = next(islice(_WORD.finditer(whole), MAX_TERMS, None), None)
        if beyond is not None:
            whole = whole[: beyond.start()]
        if not _WORD.search(whole):
            return None
        # Of a synonym of several words it would make a phrase, which fails without positions.
        return {"match": {TEXT: {"query": whole, "auto_generate_synonyms_phrase_query": False}}}
