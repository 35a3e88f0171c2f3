"""A hit, the ranking of one branch for one question, and what a branch has searched with."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import isfinite
from types import UnionType
from typing import Any, NamedTuple

from models.documents import PassageText, Vector

MAX_TERMS = 1_024
"""Only this many distinct terms of a question are searched, the first ones."""


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """Either texts or vectors."""

    texts: Mapping[str, float] = field(default_factory=dict)
    """A passage's score is the sum of its BM25 scores for these texts, each times its factor."""
    vectors: tuple[bytes, ...] = ()
    """Little-endian float32, normalised; a passage's score is its best cosine."""

    @classmethod
    def by_vectors(cls, rows: Iterable[Vector]) -> QueryInputs:
        return cls(vectors=tuple(row.astype("<f4").tobytes() for row in rows))

    def to_wire(self) -> dict[str, Any]:
        if self.texts:
            return {"texts": dict(self.texts)}
        return {"vectors": [b64encode(row).decode() for row in self.vectors]}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> QueryInputs:
        texts = {str(text): float(factor) for text, factor in wire.get("texts", {}).items()}
        return cls(texts, tuple(b64decode(row) for row in wire.get("vectors", ())))


class Hit(NamedTuple):
    """A passage in a ranking, with only the fields that fusion needs.

    A tuple, because a request makes hundreds of them and a frozen dataclass takes four times as long to make.
    """

    passage_id: str
    document_id: str
    score: float
    """On the branch's own scale."""
    source_type: str | None = None
    published_at: str | None = None
    """ISO 8601."""
    content_hash: str | None = None
    near_duplicate_group: str | None = None


_WIDTH = len(Hit._fields)
_OPTIONAL = Hit._fields[3:]

new_hit = partial(tuple.__new__, Hit)
"""Makes a hit of its seven fields in half the time that `Hit(…)` takes, without a look at them."""


_TYPES: Sequence[type | UnionType] = (str, str, int | float, *[str | None] * len(_OPTIONAL))


def _have_right_types(hits: Iterable[Hit]) -> bool:
    """Whether each column of the hits has values of its types.  A column has few types, so this takes a seventh of the time that a check
    of each value takes."""
    columns = list(zip(*hits, strict=True))
    return (
        len(columns) == _WIDTH
        and all(
            issubclass(kind, right)
            for column, right in zip(columns, _TYPES, strict=True)
            for kind in set(map(type, column))
        )
        and all(map(isfinite, columns[2]))
    )


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits, best first; the rank of `hits[0]` is 1."""

    hits: tuple[Hit, ...] = ()
    total_matches: int | None = None
    """Number of documents that match, if the store knows."""
    warnings: tuple[str, ...] = ()
    texts: Mapping[str, PassageText] = field(default_factory=dict)
    """Texts by passage id, from a source that cannot return texts by id later."""
    known_words: float | None = None
    """The namespace's figure in `Manifest`, for a ranking by vectors."""
    query_inputs: QueryInputs | None = None
    """What was searched with, where the plan wants complete scores."""
    relaxed: int = 0
    """How many filters of the request's `relax` were dropped to find these hits."""
    whole: tuple[str, ...] = ()
    """Ids of the passages that have all identifiers of the question whole, if they are the first hits and few."""

    def complaint(self) -> str | None:
        """The first value with a wrong type, which foreign code may return; None if all are right."""
        for place, hit in enumerate(() if _have_right_types(self.hits) else self.hits):
            passage_id, document_id, score, *more = hit
            if not (isinstance(passage_id, str) and isinstance(document_id, str)):
                return f"hit {place}: its ids are {passage_id!r} and {document_id!r}, which are not both text"
            if not isinstance(score, int | float) or not isfinite(score):
                return f"hit {place}: its score is {score!r}, which is not a number"
            for name, value in zip(_OPTIONAL, more, strict=True):
                if value is not None and not isinstance(value, str):
                    return f"hit {place}: {name} is {value!r}, which is neither text nor None"
        if not isinstance(self.total_matches, int | None):
            return f"total_matches is {self.total_matches!r}, which is not a whole number"
        if not isinstance(self.known_words, float | int | None):
            return f"known_words is {self.known_words!r}, which is not a number"
        return None if all(isinstance(warning, str) for warning in self.warnings) else "a warning is not text"

    def to_wire(self) -> dict[str, Any]:
        """JSON; hits are rows without field names, because they are the bulk of a branch result."""
        wire: dict[str, Any] = {"hits": [list(hit) for hit in self.hits]}
        if self.total_matches is not None:
            wire["total_matches"] = self.total_matches
        if self.warnings:
            wire["warnings"] = list(self.warnings)
        if self.texts:
            wire["texts"] = [asdict(text) for text in self.texts.values()]
        if self.known_words is not None:
            wire["known_words"] = self.known_words
        if self.query_inputs is not None:
            wire["query_inputs"] = self.query_inputs.to_wire()
        if self.relaxed:
            wire["relaxed"] = self.relaxed
        if self.whole:
            wire["whole"] = list(self.whole)
        return wire

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Ranking:
        """Read JSON; columns that a newer version added are ignored."""
        rows: Sequence[Sequence[Any]] = wire["hits"]
        return cls(
            hits=tuple([new_hit(row) if len(row) == _WIDTH else Hit(*row[:_WIDTH]) for row in rows]),
            total_matches=wire.get("total_matches"),
            warnings=tuple(wire.get("warnings", ())),
            texts={text.passage_id: text for text in map(PassageText.from_wire, wire.get("texts", ()))},
            known_words=wire.get("known_words"),
            query_inputs=QueryInputs.from_wire(wire["query_inputs"]) if "query_inputs" in wire else None,
            relaxed=wire.get("relaxed", 0),
            whole=tuple(wire.get("whole", ())),
        )
