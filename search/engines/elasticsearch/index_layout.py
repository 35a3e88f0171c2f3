"""The mappings and contents of the index of a namespace."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from models.documents import Document, Manifest, Passage
from models.errors import BadIndex
from models.hits import MAX_TERMS
from search.analysis import IndexedTexts, for_server, indexed_texts, question_terms
from search.engines.elasticsearch.dialect import Dialect
from search.engines.elasticsearch.filter_conditions import FACETS, Clause

OWN = "chorale"
TEXT, WHOLE = "text", "whole"
"""The fields that text search looks at: title, heading and text of a passage; title and texts of a whole document."""

# Text that a server's tokenizer may take for a term; each CJK character may be a term.
_WORD = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\\W\u2e80-\u9fff]+")


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
        """The mapping of both fields; without positions, because there are no phrase queries."""
        name = "whitespace" if self.is_own else self.declared if isinstance(self.declared, str) else OWN
        return {"type": "text", "analyzer": name, "index_options": "freqs"}

    def indexed(self, document: Document) -> IndexedTexts:
        """The contents of the fields TEXT and WHOLE."""
        return indexed_texts(document, self.manifest, None if self.is_own else for_server)

    def query(self, text: str, field: str = TEXT) -> Clause | None:
        """The query for a question, or None if it has no term; only the first MAX_TERMS terms count."""
        if self.is_own:
            terms = question_terms(text, self.manifest.language)
            should = [
                {"term": {field: {"value": term, "boost": float(count)} if count > 1 else {"value": term}}}
                for term, count in terms.items()
            ]
            return {"bool": {"should": should}} if should else None
        whole = for_server(text, is_question=True)
        beyond = next(islice(_WORD.finditer(whole), MAX_TERMS, None), None)
        if beyond is not None:
            whole = whole[: beyond.start()]
        if not _WORD.search(whole):
            return None
        # A synonym of several words would become a phrase query, which fails without positions.
        return {"match": {field: {"query": whole, "auto_generate_synonyms_phrase_query": False}}}


FORMAT = 3
"""Version of this layout, recorded with each namespace."""

TEMPLATE_VERSION = 3

K1, B = 1.2, 0.75
"""BM25's constants, the same as in the embedded store."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How an index was made."""

    index: str
    """Its name on the server."""
    manifest: Manifest
    words: Words
    has_vectors: bool
    shards: int


def template(prefix: str) -> dict[str, Any]:
    """Mapping and settings that all namespaces share.

    The mapping is strict, so that no field is added by mistake.
    """
    keyword = {"type": "keyword"}
    unindexed = {"type": "keyword", "index": False}
    properties = {
        "passage_id": keyword,
        "document_id": keyword,
        "source": keyword,
        "revision": keyword,
        FACETS: {"type": "keyword", "doc_values": False},
        **dict.fromkeys(
            ("source_type", "published_at", "content_hash", "near_duplicate_group", "digest"), unindexed
        ),
    }
    return {
        "index_patterns": [f"{prefix}-*.v*"],
        "priority": 500,
        "version": TEMPLATE_VERSION,
        "_meta": {"what": "namespaces of Chorale"},
        "template": {
            "settings": {
                # Only our own refresh makes a batch visible, so that it becomes visible as a whole.
                "index.refresh_interval": "-1",
                "index.similarity.default": {"type": "BM25", "k1": K1, "b": B},
            },
            "mappings": {
                "dynamic": "strict",
                # The source has the same data in another form.
                "_source": {"excludes": [TEXT, WHOLE, FACETS, "vector"]},
                "properties": properties,
            },
        },
    }


def index_body(dialect: Dialect, manifest: Manifest) -> dict[str, Any]:
    """The settings and mappings that a namespace adds to the template, with a record of how it was built."""
    endpoint = dialect.endpoint
    words = Words(endpoint.analyser, manifest)
    replicas = (
        {"auto_expand_replicas": "0-1"}
        if endpoint.replicas is None
        else {"number_of_replicas": endpoint.replicas}
    )
    properties: dict[str, Any] = {TEXT: words.mapping, WHOLE: words.mapping}
    vector_settings: dict[str, Any] = {}
    has_vectors = endpoint.vectors and manifest.dimension > 0
    if has_vectors:
        vector_settings, properties["vector"] = dialect.vector_index(manifest.dimension)
    meta = {
        "format": FORMAT,
        "manifest": asdict(manifest),
        "analyser": endpoint.analyser,
        "vectors": has_vectors,
        "shards": endpoint.shards,
    }
    return {
        "settings": {"number_of_shards": endpoint.shards, **replicas, **words.settings, **vector_settings},
        "mappings": {"_meta": meta, "properties": properties},
    }


def layout_from(index: str, mappings: Mapping[str, Any]) -> Layout:
    """Raises BadIndex if the index is not ours or has another layout version."""
    meta = mappings.get("_meta", {})
    if meta.get("format") != FORMAT:
        raise BadIndex(
            f"the index {index} is not of this version's layout (format {meta.get('format')}, here {FORMAT}); build it "
            "again with `chorale index --rebuild`"
        )
    manifest = Manifest.from_stored(meta["manifest"])
    return Layout(index, manifest, Words(meta["analyser"], manifest), meta["vectors"], meta["shards"])


def key_of(document_id: str, passage_id: str | None = None) -> str:
    """The id of a passage, or of the record of a document.  Ingestion keeps ids short enough for the server."""
    return f"p:{passage_id}" if passage_id else f"d:{document_id}"


def passage_source(layout: Layout, passage: Passage, text: str, shared: dict[str, Any]) -> dict[str, Any]:
    """A passage as it is indexed; `text` is of the field TEXT, and `shared` are the `served_fields` of its document."""
    source = {**shared, "passage_id": passage.passage_id, TEXT: text}
    if not layout.has_vectors or passage.vector is None:
        return _with_digest(source)
    vector = passage.vector.astype("<f4")
    # The vector's numbers are slow to write, so the digest is made of its bytes.
    return {**_with_digest(source, vector.tobytes()), "vector": vector.tolist()}


def document_source(document: Document, whole: str) -> dict[str, Any]:
    """The record of a document: that it is there in its revision, with passages or without, and the field WHOLE."""
    return _with_digest(
        {
            "document_id": document.document_id,
            "source": document.source,
            "revision": document.revision,
            WHOLE: whole,
        }
    )


def _with_digest(source: dict[str, Any], vector: bytes = b"") -> dict[str, Any]:
    whole = json.dumps(source, sort_keys=True).encode() + vector
    return {**source, "digest": hashlib.sha256(whole).hexdigest()[:32]}
