"""Reading an endpoint's JSON as a ranking that includes its texts."""

from __future__ import annotations

import codecs
import html
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from chorale_client.filters import is_deeper
from chorale_client.wire_names import Warned
from pydantic_core import from_json

from models.documents import MAX_METADATA_DEPTH, PassageText
from models.errors import InvalidAnswer
from models.hits import Hit, Ranking
from models.source_endpoints import HttpEndpoint, JsonPath
from search.filters import compile_filters, elements, filter_fields, unknown_field_warning
from search.protocol import Search

_TAG = re.compile(r"<[^<>]*>")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""One escape of JSON, or a surrogate pair of escapes."""
_TEXTS = ("source_type", "language", "url")
"""Metadata whose values must be texts."""
_ID_CHARS = 512
_TITLE_CHARS = 500
_WHOLE = 2**53
"""JSON readers disagree on larger whole numbers."""


class _Document(NamedTuple):
    document_id: str
    row: Any
    metadata: Mapping[str, Any]
    fields: Mapping[str, Any]
    """Those of `search.filters.filter_fields`."""
    stored: Mapping[str, Any] = {}
    """The document of the collection that `texts` declares."""


class _Selection(NamedTuple):
    """What is left of an answer after filters, exclusions and the depth."""

    documents: list[_Document]
    total: int | None
    warnings: tuple[str, ...]


ReadTexts: TypeAlias = Callable[[Sequence[Any]], Mapping[Any, Mapping[str, Any]]]
"""Ids as the endpoint gives them -> a document of another store for each id that it has; raises StageFailure."""


class AnswerReader:
    """Reads answers as the endpoint is declared; thread-safe."""

    def __init__(self, name: str, endpoint: HttpEndpoint) -> None:
        self._name = name
        self._endpoint = endpoint
        self._prefix = f"{name}/" if endpoint.id_prefix is None else endpoint.id_prefix

    def read(
        self,
        answers: Sequence[bytes],
        search: Search,
        *,
        requested_hits: int,
        unsent: Collection[str] = (),
        read_texts: ReadTexts | None = None,
    ) -> list[Ranking]:
        """The ranking of each answer; raises InvalidAnswer, and what `read_texts` raises, which is called at most once.

        `requested_hits` is the number of hits that the endpoint was to send for each question, and `unsent` are the fields with
        conditions that it does not know.
        """
        selections = [
            self._selected(*self._hits(raw), search, requested_hits=requested_hits, unsent=unsent)
            for raw in answers
        ]
        ids = dict.fromkeys(self._stored_id(one) for selection in selections for one in selection.documents)
        if read_texts is not None and ids:
            stored = read_texts([*ids])
            selections = [self._with_texts(selection, stored) for selection in selections]
        return list(map(self._ranking, selections))

    def ranking(self, hits: list[Any], search: Search) -> Ranking:
        """Each document's first hit, in the order of `hits`; raises InvalidAnswer.

        A hit without a usable id is left out and counted in the warnings.  Filters look at the fields of each hit.
        """
        return self._ranking(self._selected(hits, None, search))

    def _hits(self, raw: bytes) -> tuple[list[Any], Any]:
        """The hits of an answer, and its total."""
        endpoint = self._endpoint
        try:
            answer = _parsed(raw.removeprefix(codecs.BOM_UTF8))
        except ValueError as error:
            raise InvalidAnswer(f"{endpoint.address} does not answer with JSON: {error}"[:300]) from error
        hits = answer if endpoint.hits is None else at(answer, endpoint.hits)
        if not isinstance(hits, list):
            raise InvalidAnswer(
                f"{endpoint.address} has no list of hits at {_shown(endpoint.hits)}, but {_kind(hits)}"
            )
        return hits, None if endpoint.total is None else at(answer, endpoint.total)

    def _selected(
        self,
        hits: list[Any],
        total: Any,
        search: Search,
        *,
        requested_hits: float = math.inf,
        unsent: Collection[str] = (),
    ) -> _Selection:
        endpoint = self._endpoint
        received_hits, hits = len(hits), hits[: endpoint.max_hits]
        documents: dict[str, _Document] = {}
        nameless = unusable = 0
        for row in hits:
            document_id = self._id(row)
            if document_id is None:
                nameless += 1
            elif document_id not in documents:
                metadata, is_whole = self._metadata(row)
                unusable += not is_whole
                documents[document_id] = _Document(
                    document_id, row, metadata, filter_fields(document_id, self._name, metadata)
                )
        if hits and nameless == len(hits):
            raise InvalidAnswer(
                f"{endpoint.address}: none of {nameless} hits has a text or whole number as id at {_shown(endpoint.id)}"
            )
        left_out = {
            f"{nameless} of {len(hits)} hits have no id": nameless,
            f"{unusable} of {len(hits)} hits have metadata that cannot be used": unusable,
            f"the first {len(hits)} of {received_hits} hits count": received_hits > len(hits),
        }
        warnings = [f"{Warned.SOURCE}: {self._name}: {what}" for what, is_so in left_out.items() if is_so]
        kept, filter_warnings = _filtered(
            documents, replace(search, filters=self._own_filters(search, unsent))
        )
        # A caller learns neither what the key forces nor how many documents that hides.
        own_unsent = set(unsent) - set(search.forced_fields)
        if endpoint.takes_filters and own_unsent:
            fields = ", ".join(map(repr, sorted(own_unsent)))
            warnings.append(
                f"{Warned.SOURCE}: {self._name}: filter {fields}: {endpoint.filter_dialect} cannot express the whole condition, "
                f"which is compared here, among the first {endpoint.max_hits} hits"
            )
        is_short = len(kept) < min(len(documents), search.depth) and received_hits >= requested_hits
        if is_short and not search.forced_fields:
            warnings.append(
                f"{Warned.DEPTH}: {self._name}: {len(kept)} documents instead of {search.depth}: filters and exclusions were "
                f"compared here, among the first {requested_hits} hits"
            )
        kept = kept[: search.depth]
        is_known = _is_number(total) and isinstance(total, int) and total >= len(kept) and not search.filters
        return _Selection(kept, total if is_known else None, (*warnings, *filter_warnings))

    def _stored_id(self, document: _Document) -> Any:
        """The id as the endpoint gives it."""
        return at(document.row, self._endpoint.id)

    def _with_texts(self, selection: _Selection, stored: Mapping[Any, Mapping[str, Any]]) -> _Selection:
        documents, total, warnings = selection
        kept = [
            one._replace(stored=stored[id_]) for one in documents if (id_ := self._stored_id(one)) in stored
        ]
        if missing := len(documents) - len(kept):
            warnings = (
                *warnings,
                f"{Warned.DOCUMENT_MISSING}: {self._name}: {missing} of {len(documents)} hits have no text in the collection, and "
                "are left out",
            )
        return _Selection(kept, total, warnings)

    def _ranking(self, selection: _Selection) -> Ranking:
        return Ranking(
            tuple(map(self._hit, selection.documents)),
            selection.total,
            selection.warnings,
            {text.passage_id: text for text in map(self._text, selection.documents)},
        )

    def _own_filters(self, search: Search, unsent: Collection[str]) -> dict[str, Any]:
        """The filters that hits are compared with here: of those that were sent, only where the hits have the field, or a key
        forces it.  A hit without a field that a key forces is left out, since nobody knows what the endpoint has there."""
        endpoint = self._endpoint
        known = {"document_id", "source", *endpoint.metadata}
        known |= {name for name in ("published_at", "source_type") if getattr(endpoint, name) is not None}
        return {
            field: {"all": [condition, {"exists": True}]} if field in search.forced_fields else condition
            for field, condition in (search.filters or {}).items()
            if not endpoint.takes_filters
            or field in unsent
            or field in search.forced_fields
            or {field, field.partition(".")[0]} & known
        }

    def _id(self, row: Any) -> str | None:
        value = at(row, self._endpoint.id)
        is_name = isinstance(value, str) and 0 < len(value) <= _ID_CHARS
        return f"{self._prefix}{value}" if is_name or (_is_number(value) and isinstance(value, int)) else None

    def _metadata(self, row: Any) -> tuple[dict[str, Any], bool]:
        """The metadata, and whether every value could be used."""
        endpoint = self._endpoint
        paths = {
            **endpoint.metadata,
            "published_at": endpoint.published_at,
            "source_type": endpoint.source_type,
        }
        values = {name: at(row, path) for name, path in paths.items() if path is not None}
        given = sum(value is not None for value in values.values())
        if not _is_moment(values.get("published_at")):
            values.pop("published_at", None)
        for name in _TEXTS:
            if not isinstance(values.get(name), str):
                values.pop(name, None)
        usable = {
            name: value
            for name, value in values.items()
            if value is not None and not is_deeper(value, MAX_METADATA_DEPTH)
        }
        return usable, len(usable) == given

    def _hit(self, document: _Document) -> Hit:
        path = self._endpoint.score
        score = None if path is None else at(document.row, path)
        return Hit(
            self._passage_id(document.document_id),
            document.document_id,
            float(score) if _is_number(score) else 0.0,
            document.fields.get("source_type"),
            document.fields.get("published_at"),
        )

    def _text(self, document: _Document) -> PassageText:
        endpoint, texts = self._endpoint, self._endpoint.texts
        places: list[tuple[Any, JsonPath | None]] = [
            (document.row, endpoint.title),
            (document.row, endpoint.text),
        ]
        if texts is not None:
            places = [
                (document.stored, texts.title) if texts.title else places[0],
                (document.stored, texts.text),
            ]
        title, text = ("" if path is None else self._plain(at(row, path)) for row, path in places)
        return PassageText(
            self._passage_id(document.document_id),
            document.document_id,
            title[:_TITLE_CHARS],
            "",
            text[: self._endpoint.text_chars],
            document.metadata,
        )

    def _passage_id(self, document_id: str) -> str:
        """Unique to this source, because its text is not the text of an indexed passage."""
        return f"{document_id}#{self._name}"

    def _plain(self, value: Any) -> str:
        if isinstance(value, list):
            value = " … ".join(one for one in value if isinstance(one, str))
        if not isinstance(value, str):
            return ""
        return html.unescape(_TAG.sub("", value)) if self._endpoint.text_is_html else value


def _parsed(raw: bytes) -> Any:
    """Lone surrogates, which JavaScript and Java write when they cut a text, become U+FFFD; raises ValueError."""
    try:
        return from_json(raw, allow_inf_nan=False)
    except ValueError:
        whole = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], raw)
        if whole == raw:
            raise
        return from_json(whole, allow_inf_nan=False)


def _filtered(documents: Mapping[str, _Document], search: Search) -> tuple[list[_Document], tuple[str, ...]]:
    excluded = frozenset(search.exclude_ids)
    kept = [one for name, one in documents.items() if name not in excluded]
    if not search.filters:
        return kept, ()
    compiled = compile_filters(search.filters)
    unknown = [
        field
        for field in compiled.fields
        if documents and not any(elements(one.fields, field) for one in documents.values())
    ]
    warnings = (*compiled.warnings, *map(unknown_field_warning, unknown))
    return [] if unknown else [one for one in kept if compiled.matches(one.fields)], warnings


def _is_number(value: Any) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _WHOLE if isinstance(value, int) else math.isfinite(value)


def _is_moment(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def _shown(path: JsonPath | None) -> str:
    if path is None:
        return "its top"
    return repr(path if isinstance(path, str) else ".".join(map(str, path)))


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number")


def at(document: Any, path: JsonPath) -> Any:
    """The value at the path, or None.  A leading `$` means the document itself."""
    steps = path.removeprefix("$").lstrip(".").split(".") if isinstance(path, str) else path
    for step in steps:
        if isinstance(document, dict):
            document = document.get(str(step))
        elif isinstance(document, list) and str(step).isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document
