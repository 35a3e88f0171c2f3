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
from models.endpoints import HttpEndpoint, JsonPath
from models.errors import InvalidAnswer
from models.hits import Hit, Ranking
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


class _Found(NamedTuple):
    document_id: str
    row: Any
    metadata: Mapping[str, Any]
    fields: Mapping[str, Any]
    """Those of `search.filters.filter_fields`."""
    stored: Mapping[str, Any] = {}
    """The document of the collection that `texts` declares."""


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
        raw: bytes,
        search: Search,
        *,
        asked: int,
        unsent: Collection[str] = (),
        read_texts: ReadTexts | None = None,
    ) -> Ranking:
        """The first hit of every document, in the endpoint's order; raises InvalidAnswer, and what `read_texts` raises.

        `asked` is the number of hits that the endpoint was to send, and `unsent` are the fields with conditions that it does not
        know.
        """
        endpoint = self._endpoint
        try:
            answer = _parsed(raw.removeprefix(codecs.BOM_UTF8))
        except ValueError as error:
            raise InvalidAnswer(f"{endpoint.address} does not answer with JSON: {error}"[:300]) from error
        found = answer if endpoint.hits is None else at(answer, endpoint.hits)
        if not isinstance(found, list):
            raise InvalidAnswer(
                f"{endpoint.address} has no list of hits at {_shown(endpoint.hits)}, but {_kind(found)}"
            )
        total = None if endpoint.total is None else at(answer, endpoint.total)
        return self.ranking(found, search, total, asked=asked, unsent=unsent, read_texts=read_texts)

    def ranking(
        self,
        found: list[Any],
        search: Search,
        total: Any = None,
        *,
        asked: float = math.inf,
        unsent: Collection[str] = (),
        read_texts: ReadTexts | None = None,
    ) -> Ranking:
        """Each document's first hit, in the order of `found`; raises InvalidAnswer.

        A hit without a usable id is left out and counted in the warnings.  Filters look at the fields of each hit.
        """
        endpoint = self._endpoint
        came, found = len(found), found[: endpoint.max_hits]
        documents: dict[str, _Found] = {}
        nameless = unusable = 0
        for row in found:
            document_id = self._id(row)
            if document_id is None:
                nameless += 1
            elif document_id not in documents:
                metadata, is_whole = self._metadata(row)
                unusable += not is_whole
                documents[document_id] = _Found(
                    document_id, row, metadata, filter_fields(document_id, self._name, metadata)
                )
        if found and nameless == len(found):
            raise InvalidAnswer(
                f"{endpoint.address}: none of {nameless} hits has a text or whole number as id at {_shown(endpoint.id)}"
            )
        left_out = {
            f"{nameless} of {len(found)} hits have no id": nameless,
            f"{unusable} of {len(found)} hits have metadata that cannot be used": unusable,
            f"the first {len(found)} of {came} hits count": came > len(found),
        }
        warnings = [f"{Warned.SOURCE}: {self._name}: {what}" for what, is_so in left_out.items() if is_so]
        kept, said = _filtered(documents, replace(search, filters=self._own_filters(search, unsent)))
        if endpoint.takes_filters and unsent:
            fields = ", ".join(map(repr, sorted(unsent)))
            warnings.append(
                f"{Warned.SOURCE}: {self._name}: filter {fields}: {endpoint.filter_dialect} cannot express the whole condition, "
                f"which is compared here, among the first {endpoint.max_hits} hits"
            )
        if len(kept) < min(len(documents), search.depth) and came >= asked:
            warnings.append(
                f"{Warned.DEPTH}: {self._name}: {len(kept)} documents instead of {search.depth}: filters and exclusions were "
                f"compared here, among the first {asked} hits"
            )
        kept = kept[: search.depth]
        if read_texts is not None and kept:
            ids = {at(one.row, endpoint.id): one for one in kept}
            stored = read_texts([*ids])
            kept = [one._replace(stored=stored[id_]) for id_, one in ids.items() if id_ in stored]
            if missing := len(ids) - len(kept):
                warnings.append(
                    f"{Warned.DOCUMENT_MISSING}: {self._name}: {missing} of {len(ids)} hits have no text in the collection, and "
                    "are left out"
                )
        known = _is_number(total) and isinstance(total, int) and total >= len(kept) and not search.filters
        return Ranking(
            tuple(self._hit(one) for one in kept),
            total if known else None,
            (*warnings, *said),
            {text.passage_id: text for text in map(self._text, kept)},
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
        found = {name: at(row, path) for name, path in paths.items() if path is not None}
        given = sum(value is not None for value in found.values())
        if not _is_moment(found.get("published_at")):
            found.pop("published_at", None)
        for name in _TEXTS:
            if not isinstance(found.get(name), str):
                found.pop(name, None)
        usable = {
            name: value
            for name, value in found.items()
            if value is not None and not is_deeper(value, MAX_METADATA_DEPTH)
        }
        return usable, len(usable) == given

    def _hit(self, found: _Found) -> Hit:
        path = self._endpoint.score
        score = None if path is None else at(found.row, path)
        return Hit(
            self._passage_id(found.document_id),
            found.document_id,
            float(score) if _is_number(score) else 0.0,
            found.fields.get("source_type"),
            found.fields.get("published_at"),
        )

    def _text(self, found: _Found) -> PassageText:
        endpoint, texts = self._endpoint, self._endpoint.texts
        places: list[tuple[Any, JsonPath | None]] = [(found.row, endpoint.title), (found.row, endpoint.text)]
        if texts is not None:
            places = [(found.stored, texts.title) if texts.title else places[0], (found.stored, texts.text)]
        title, text = ("" if path is None else self._plain(at(row, path)) for row, path in places)
        return PassageText(
            self._passage_id(found.document_id),
            found.document_id,
            title[:_TITLE_CHARS],
            "",
            text[: self._endpoint.text_chars],
            found.metadata,
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
        whole = _ESCAPE.sub(lambda found: rb"\ufffd" if found["half"] else found[0], raw)
        if whole == raw:
            raise
        return from_json(whole, allow_inf_nan=False)


def _filtered(documents: Mapping[str, _Found], search: Search) -> tuple[list[_Found], tuple[str, ...]]:
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
