"""Reading an endpoint's JSON as a ranking that includes its texts."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from chorale_client.filters import is_deeper
from chorale_client.wire_names import Warned
from pydantic_core import from_json

from models.declarations.sources import HttpEndpoint, JsonPath
from models.documents import MAX_METADATA_DEPTH, PassageText
from models.errors import InvalidAnswer
from models.hits import Hit, Ranking
from search.filters import (
    Fields,
    compile_filters,
    date_span,
    elements,
    filter_fields,
    unknown_field_warning,
)
from search.protocol import Search

_TAG = re.compile(r"<[A-Za-z/!?][^<>]*>")
_ID_CHARS = 512
_TITLE_CHARS = 500
_WHOLE = 2**53
"""JSON readers disagree on larger whole numbers."""


class Document(NamedTuple):
    id: str | int
    """The id as the endpoint sends it."""
    hit: Hit
    text: PassageText
    fields: Fields
    unusable: frozenset[str]
    """The fields of its metadata whose value cannot be used."""
    has_score: bool
    """Whether it has the score that is declared, if any is."""


class Answer(NamedTuple):
    documents: Sequence[Document]
    """Each document's first hit, in the order of the endpoint, up to the depth of the search."""
    warnings: tuple[str, ...]
    total: int | None = None

    def ranking(self) -> Ranking:
        texts = {one.hit.passage_id: one.text for one in self.documents}
        return Ranking(tuple(one.hit for one in self.documents), self.total, self.warnings, texts=texts)


class AnswerReader:
    """Reads answers as the endpoint is declared; thread-safe."""

    def __init__(self, name: str, endpoint: HttpEndpoint) -> None:
        self._name = name
        self._endpoint = endpoint
        self._prefix = f"{name}/" if endpoint.id_prefix is None else endpoint.id_prefix
        shared = self._prefix.rstrip("/")
        # Stores with one prefix find the same passages.  A number would be the place of an indexed passage.
        self._passages = name if not shared or shared.isdecimal() else shared
        reserved = {"published_at": endpoint.published_at, "source_type": endpoint.source_type}
        self._fields = endpoint.metadata | {name: path for name, path in reserved.items() if path is not None}

    def read(self, raw: bytes, search: Search, requested_hits: int, unsent: Collection[str]) -> Answer:
        """The documents of an answer that may be shown; raises InvalidAnswer.

        `requested_hits` is the number of hits that the endpoint was to send, and `unsent` are the fields with conditions that it does
        not know.
        """
        endpoint = self._endpoint
        try:
            answer = _parsed(raw)
        except (ValueError, RecursionError) as error:
            raise InvalidAnswer(f"{endpoint.address} does not answer with JSON: {error}"[:300]) from error
        place = endpoint.hits or "$"
        hits, total = at(answer, place), at(answer, endpoint.total)
        if not isinstance(hits, list):
            instead = "nothing" if hits is None else "another value"
            raise InvalidAnswer(f"{endpoint.address} has no list of hits at {place!r}, but {instead}")
        read = self.read_hits(hits, search, requested_hits, unsent)
        is_known = type(total) is int and len(read.documents) <= total <= _WHOLE and not search.filters
        return read._replace(total=total) if is_known else read

    def read_hits(
        self,
        hits: Sequence[Any],
        search: Search,
        requested_hits: float = math.inf,
        unsent: Collection[str] = (),
    ) -> Answer:
        """Raises InvalidAnswer.  A hit without a usable id is left out and counted in the warnings."""
        endpoint, forced = self._endpoint, frozenset(search.forced_fields)
        used = hits[: endpoint.max_hits]
        read = [one for row in used if (one := self._document(row)) is not None]
        nameless = len(used) - len(read)
        if used and not read:
            raise InvalidAnswer(
                f"{endpoint.address}: none of {nameless} hits has a text or whole number as id at {endpoint.id!r}"
            )
        documents: dict[str, Document] = {}
        for one in read:
            documents.setdefault(one.hit.document_id, one)
        mixed = sum(type(documents[one.hit.document_id].id) is not type(one.id) for one in read)
        own_filters = self._own_filters(search, unsent)
        matching, filter_warnings = self._matching(documents.values(), search, own_filters)
        own_unsent = sorted(set(unsent) - forced) if endpoint.takes_filters else []
        # A caller learns neither what the key forces nor how many documents that hides.
        counted = matching if forced else documents.values()
        unusable = [fields for one in counted if (fields := one.unusable - forced)]
        names = sorted(set[str]().union(*unusable))
        lost = "" if own_filters.keys().isdisjoint(names) else ", and a condition on it leaves them out"
        unscored = sum(not one.has_score for one in matching)
        is_short = len(matching) < min(len(documents), search.depth) and len(hits) >= requested_hits
        compared_here = f"compared here, among the first {requested_hits} hits"
        said = (
            (
                not forced and nameless,
                f"{nameless} of {len(used)} hits have no text or whole number as id",
            ),
            (
                not forced and mixed,
                f"{mixed} of {len(used)} hits are left out: an earlier hit has the same id, as a number instead of a text or the reverse",
            ),
            (
                unusable,
                f"{len(unusable)} of {len(counted)} hits have a value of {_named(names)} that cannot be used{lost}",
            ),
            (
                unscored,
                f"{unscored} of {len(matching)} hits have no number at {endpoint.score!r}, and get the score 0",
            ),
            (not forced and len(hits) > len(used), f"the first {len(used)} of {len(hits)} hits count"),
            (
                own_unsent,
                f"filter {_named(own_unsent)}: {endpoint.filter_dialect} cannot express the whole condition, which is {compared_here}",
            ),
        )
        warnings = [f"{Warned.SOURCE}: {self._name}: {what}" for is_so, what in said if is_so]
        if is_short and not forced:
            warnings.append(
                f"{Warned.DEPTH}: {self._name}: {len(matching)} documents instead of {search.depth}: filters and exclusions were {compared_here}"
            )
        return Answer(matching[: search.depth], (*warnings, *filter_warnings))

    def explained(self, raw: bytes) -> str:
        """The text of an error's body at the declared path; empty if there is none."""
        try:
            said = at(_parsed(raw), self._endpoint.error)
        except (ValueError, RecursionError):
            return ""
        return said if isinstance(said, str) else ""

    def with_texts(self, answer: Answer, stored: Mapping[str | int, tuple[Any, Any]]) -> Answer:
        """The answer with other titles and texts, by `Document.id`.  A document keeps its title if the other one is None; one without
        a text is left out."""
        documents, chars = list[Document](), self._endpoint.text_chars
        for one in answer.documents:
            title, text = stored.get(one.id, (None, None))
            if text := self._plain(text):
                title = one.text.title if title is None else self._plain(title, _TITLE_CHARS)
                documents.append(one._replace(text=replace(one.text, title=title, text=text[:chars])))
        omitted, of = len(answer.documents) - len(documents), len(answer.documents)
        what = f"{omitted} of {of} hits have no text in the collection, and are left out"
        said = [f"{Warned.DOCUMENT_MISSING}: {self._name}: {what}"] if omitted else []
        return Answer(documents, (*answer.warnings, *said), answer.total)

    def _document(self, row: Any) -> Document | None:
        """Returns None for a hit without a usable id."""
        endpoint, id_ = self._endpoint, at(row, self._endpoint.id)
        is_name = isinstance(id_, str) and 0 < len(id_) <= _ID_CHARS
        if not (is_name or (type(id_) is int and abs(id_) < 2**64)):
            return None
        document_id = f"{self._prefix}{id_}"
        # No indexed passage has this id, because its text may be another one.
        passage_id = f"{document_id}#{self._passages}"
        values = {name: value for name, path in self._fields.items() if (value := at(row, path)) is not None}
        metadata = {name: value for name, value in values.items() if _is_usable(name, value)}
        fields = filter_fields(document_id, self._name, metadata)
        score = 0.0 if endpoint.score is None else _score(at(row, endpoint.score))
        title = self._plain(at(row, endpoint.title), _TITLE_CHARS)
        text = self._plain(at(row, endpoint.text), endpoint.text_chars)
        kind, date = fields.get("source_type"), fields.get("published_at")
        hit = Hit(passage_id, document_id, score or 0.0, kind, date)
        passage_text = PassageText(passage_id, document_id, title, text=text, metadata=metadata)
        return Document(
            id_, hit, passage_text, fields, frozenset(values.keys() - metadata), score is not None
        )

    def _matching(
        self, documents: Collection[Document], search: Search, filters: Mapping[str, Any]
    ) -> tuple[list[Document], tuple[str, ...]]:
        """The documents that the search does not exclude, and that meet `filters`, for which each value must be usable; and warnings."""
        compiled = compile_filters(filters)
        lacking = tuple(
            f"{Warned.SOURCE}: {self._name}: filter {field!r}: no hit has this field, so nothing matches: declare it in metadata"
            if self._endpoint.takes_filters and {field, field.partition(".")[0]}.isdisjoint(self._fields)
            else unknown_field_warning(field)
            for field in compiled.fields
            if documents
            and not any(field in one.unusable or elements(one.fields, field) for one in documents)
        )
        matching = [
            one
            for one in documents
            if one.hit.document_id not in search.exclude_ids
            and one.unusable.isdisjoint(filters)
            and not lacking
            and compiled.matches(one.fields)
        ]
        return matching, compiled.warnings + lacking

    def _own_filters(self, search: Search, unsent: Collection[str]) -> dict[str, Any]:
        """The filters that are compared here: those that were not sent, and those that a key forces.  A hit without a field that a key
        forces is left out, since nobody knows what the endpoint has there."""
        return {
            field: {"all": [condition, {"exists": True}]} if field in search.forced_fields else condition
            for field, condition in (search.filters or {}).items()
            if not self._endpoint.takes_filters or field in unsent or field in search.forced_fields
        }

    def _plain(self, value: Any, most_chars: int | None = None) -> str:
        if isinstance(value, list):
            value = " … ".join(one for one in value if isinstance(one, str))
        if not isinstance(value, str):
            return ""
        return (html.unescape(_TAG.sub("", value)) if self._endpoint.text_is_html else value)[:most_chars]


def _named(fields: Sequence[str]) -> str:
    return ", ".join(map(repr, fields))


def _parsed(raw: bytes) -> Any:
    """Lone surrogates, which JavaScript and Java write when they cut a text, become U+FFFD; raises ValueError or RecursionError."""
    try:
        return from_json(raw, allow_inf_nan=False)
    except ValueError:
        # The standard library reads them, and a byte order mark.
        text = json.dumps(json.loads(raw), ensure_ascii=False).encode("utf-16", "surrogatepass")
        return from_json(text.decode("utf-16", "replace"), allow_inf_nan=False)


def _score(value: Any) -> float | None:
    """The finite number that a value is, or that a text has."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, bool) and math.isfinite(score := float(value)):
            return score
    return None


def _is_usable(name: str, value: Any) -> bool:
    if name in ("source_type", "language", "url"):
        return isinstance(value, str)
    return (
        date_span(value) is not None if name == "published_at" else not is_deeper(value, MAX_METADATA_DEPTH)
    )


def at(document: Any, path: JsonPath | None) -> Any:
    """The value at the path, or None.  A leading `$` means the document itself.  A name inside a list stands for the values of all its
    objects, as in filters."""
    if path is None:
        return None
    steps = filter(None, path.removeprefix("$").split(".")) if isinstance(path, str) else path
    for step in steps:
        if isinstance(document, dict):
            document = document.get(str(step))
        elif isinstance(document, list) and str(step).isdecimal():
            document = document[int(step)] if int(step) < len(document) else None
        elif isinstance(document, list):
            objects = (one for one in document if isinstance(one, dict))
            document = [value for one in objects for value in elements(one, str(step))] or None
        else:
            return None
    return document
