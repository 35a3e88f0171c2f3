"""Checks of every store: documents, manifests and question vectors that it refuses."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields

import numpy as np
from chorale_client.request import check_namespace

from models.documents import Document, Manifest, Matrix
from models.errors import InvalidAnswer, ManifestMismatch, NotConfigured, OtherEncoder, WrongDeclaration
from search.analysis import analyser

LONGEST_PASSAGE = 5_000_000
"""Maximum characters of a passage, of its title, and of its document's metadata as JSON.  Servers take requests of
at most 100 MB."""

_UNIT_LENGTH_TOLERANCE = 0.01
_SAME_MODEL = 0.02
"""Two servers with one model differ less in a cosine, also in half precision."""


def checked_documents(documents: Iterable[Document], manifest: Manifest) -> list[Document]:
    """The documents; of those with the same id, the last one.

    Raises InvalidAnswer for a duplicate passage id, a vector of the wrong dimension, or one that is not normalised.
    """
    chosen = list({document.document_id: document for document in documents}.values())
    seen: set[str] = set()
    for document in chosen:
        for passage in document.passages:
            if passage.passage_id in seen:
                raise InvalidAnswer(f"passage {passage.passage_id!r} occurs twice")
            seen.add(passage.passage_id)
            if passage.vector is None:
                continue
            if passage.vector.shape != (manifest.dimension,):
                raise InvalidAnswer(
                    f"passage {passage.passage_id!r} has a vector of shape {passage.vector.shape}; "
                    f"the namespace has dimension {manifest.dimension}"
                )
            length = float(np.linalg.norm(passage.vector))
            if not abs(length - 1.0) <= _UNIT_LENGTH_TOLERANCE:
                raise InvalidAnswer(
                    f"passage {passage.passage_id!r} has a vector of length {length:g} instead of 1"
                )
    return chosen


def refusal_reason(document: Document) -> str | None:
    """The reason why no server takes this document (metadata that is no JSON, a text too long for a request).

    None if a server can take it.
    """
    try:
        sizes = {
            "its metadata": len(json.dumps(dict(document.metadata), ensure_ascii=False, allow_nan=False))
        }
    except (TypeError, ValueError, RecursionError) as error:
        return f"its metadata is not JSON: {str(error)[:200]}"
    for passage in document.passages:
        longest = max(len(passage.text), len(document.title), len(passage.heading))
        sizes[f"passage {passage.passage_id[:80]!r}"] = longest
    for what, size in sizes.items():
        if size > LONGEST_PASSAGE:
            return f"{what} has {size:,} characters; at most {LONGEST_PASSAGE:,}: split the document"
    return None


def check_manifest(namespace: str, manifest: Manifest) -> None:
    """Raises WrongDeclaration for an invalid name or manifest."""
    try:
        check_namespace(namespace)
    except ValueError as error:
        raise WrongDeclaration(str(error)) from None
    if manifest.title_repeats != "auto" and not manifest.title_repeats.isdecimal():
        raise WrongDeclaration(f"title_repeats is 'auto' or a number, not {manifest.title_repeats!r}")
    if manifest.dimension < 0:
        raise WrongDeclaration(f"a dimension is 0 (no vectors) or more, not {manifest.dimension}")
    analyser(manifest.language)


def same_manifest(namespace: str, stored: Manifest, requested: Manifest) -> Manifest:
    """Returns `stored`; raises ManifestMismatch naming every difference and the command that helps."""
    if stored.probe and requested.probe and not np.allclose(stored.probe, requested.probe, atol=_SAME_MODEL):
        raise ManifestMismatch(
            f"the server of the encoder {stored.encoder!r} has another model than when namespace {namespace!r} was built: start "
            f"that one again, or embed all documents again with `chorale namespaces rebuild {namespace}`"
        )
    differing = [
        f"{field.name} is {getattr(stored, field.name)!r}, asked for {getattr(requested, field.name)!r}"
        for field in fields(Manifest)
        if field.name not in ("known_words", "probe", "stores")
        and getattr(stored, field.name) != getattr(requested, field.name)
    ]
    if differing:
        raise built_differently(namespace, differing)
    return stored


def built_differently(namespace: str, differing: Sequence[str]) -> ManifestMismatch:
    return ManifestMismatch(
        f"namespace {namespace!r} was built differently: {'; '.join(differing)}. "
        f"Index with the same settings, or build it again with `chorale index --rebuild`; "
        f"`chorale namespaces rebuild {namespace} --encoder NAME` changes its encoder alone"
    )


def without_vectors(namespace: str, product: str) -> NotConfigured:
    return NotConfigured(
        f"namespace {namespace!r} in {product} has no vectors: declare the store with `vectors = true` and build it again with "
        "`chorale index --rebuild`"
    )


def check_encoder(namespace: str, manifest: Manifest, embedders: Collection[str]) -> None:
    """Raises OtherEncoder if the namespace was embedded by none of `embedders`, which are fingerprints."""
    if manifest.embedder not in embedders:
        raise OtherEncoder(
            f"namespace {namespace!r} has the vectors of another model than the encoder {manifest.encoder!r} is here: use "
            f"the model that it was built with, or build it again: `chorale namespaces rebuild {namespace}`"
        )


def checked_questions(
    namespace: str, vectors: Matrix, manifest: Manifest, embedders: Collection[str] = ()
) -> Matrix:
    """The question vectors as float32, contiguous.

    Raises OtherEncoder if the namespace was embedded by none of `embedders`, and InvalidAnswer unless the shape is
    (questions, dimension) and every value is a number.
    """
    if embedders:
        check_encoder(namespace, manifest, embedders)
    questions = np.ascontiguousarray(vectors, np.float32)
    if questions.ndim != 2 or questions.shape[1] != manifest.dimension:
        raise InvalidAnswer(
            f"question vectors have the shape {questions.shape}; namespace {namespace!r} has dimension {manifest.dimension}"
        )
    if not np.isfinite(questions).all():
        raise InvalidAnswer("a question vector has values that are not finite numbers")
    return questions
