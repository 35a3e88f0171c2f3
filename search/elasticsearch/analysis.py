"""The terms of a namespace: from our own analyser, or from an analyser of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from models.documents import Manifest
from models.hits import MAX_TERMS
from search.analysis import analyser, indexed_text, prepared, question_terms
from search.elasticsearch.filter_conditions import Clause

OWN = "chorale"
TEXT = "text"
"""The one field that text search looks at: title, heading and text."""

# Text that a server's tokenizer may take for a term; each CJK character may be a term.
_WORD = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W\u2e80-\u9fff]+")


# Direction marks.  `standard` makes them part of a word; our own tokenizer splits at them.
_MARKS = dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF], " ")


@dataclass(frozen=True, slots=True)
class Words:
    """Makes the indexed words of texts and the queries for questions, following the namespace's manifest.

    `declared` is the option `analyser`.  With our own analyser the index receives terms separated by spaces, so
    that every language on any server has the terms and scores of the embedded store.  Elasticsearch does not count
    passages without any term (stop words only), so scores are lower where there are such passages.
    """

    declared: str | Mapping[str, Any]
    manifest: Manifest

    @property
    def is_own(self) -> bool:
        return self.declared == OWN

    @property
    def settings(self) -> dict[str, Any]:
        return {} if isinstance(self.declared, str) else {"analysis": dict(self.declared)}

    @property
    def mapping(self) -> dict[str, Any]:
        """The mapping of the field TEXT; without positions, because there are no phrase queries."""
        name = "whitespace" if self.is_own else self.declared if isinstance(self.declared, str) else OWN
        return {"type": "text", "analyzer": name, "index_options": "freqs"}

    def indexed(self, title: str, heading: str, text: str) -> str:
        """The content of the field TEXT."""
        whole = indexed_text(title, heading, text, self.manifest)
        if self.is_own:
            return " ".join(analyser(self.manifest.language).analyze(whole))
        return whole.translate(_MARKS)

    def asked(self, text: str) -> Clause | None:
        """The query for a question, or None if it has no term; only the first MAX_TERMS terms count."""
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
        # A synonym of several words would become a phrase query, which fails without positions.
        return {"match": {TEXT: {"query": whole, "auto_generate_synonyms_phrase_query": False}}}
