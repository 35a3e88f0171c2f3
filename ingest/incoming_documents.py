"""Documents and ids that another program hands in; the documents keep their own ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

from chorale_client.documents import checked_list, faults_of
from chorale_client.limits import MAX_DELETED

from ingest.clean import cleaned
from ingest.collection_rows import given_id, record_of
from ingest.document_ids import checked_id, checked_source
from ingest.headings import TOO_MANY_HEADINGS, has_too_many_headings
from ingest.raw_documents import Fault, Markup, RawDocument, Skipped
from ingest.read import document_of
from models.left_out import LeftOut


def read_rows(rows: Iterable[Any], *, source: str) -> Iterator[RawDocument | Skipped]:
    """The documents in rows of `{id, title, text, metadata}`; a row that is wrong or too large is skipped.

    A row's `markup` is `plain` or `markdown`; without it, a text with headings is Markdown.  Raises ValueError if the rows
    are too much for one message.
    """
    checked_source(source)
    for number, (row, fault) in enumerate(faults_of(rows), start=1):
        where = f"document {number}"
        why = fault if isinstance(row, Mapping) else f"{type(row).__name__}, not an object"
        if why is not None:
            is_json = isinstance(row, Mapping) and not why.startswith("not JSON")
            yield Skipped(where, LeftOut.TOO_LARGE if is_json else LeftOut.MALFORMED, why, spares="")
            continue
        row = dict(row)
        markup: Markup | None = row.pop("markup") if row.get("markup") in get_args(Markup) else None
        for result in record_of(row, {}, line=number):
            if isinstance(result, Fault):
                yield Skipped(where, result.reason, result.why, spares=None if result.reason.is_part else "")
            elif result.given_id is None:
                yield Skipped(where, LeftOut.WRONG_ID, "it has no id", spares="")
            else:
                record = cleaned(result if markup is None else replace(result, markup=markup))
                if record.markup == "markdown" and has_too_many_headings(record.text):
                    yield Skipped(where, LeftOut.HEADINGS, TOO_MANY_HEADINGS)
                yield document_of(record, where, source, source, own_ids=True, collection=True)


def last_of_each(items: Iterable[RawDocument | Skipped]) -> list[RawDocument | Skipped]:
    """Keep the last of several documents with the same id, and skip the earlier ones."""
    items = list(items)
    last = {item.document_id: item for item in items if isinstance(item, RawDocument)}
    return [
        item
        if isinstance(item, Skipped) or (later := last[item.document_id]) is item
        else Skipped(item.path, LeftOut.SUPERSEDED, f"{later.path} has the same id and replaces it")
        for item in items
    ]


def read_ids(values: Iterable[Any]) -> tuple[list[str], list[Skipped]]:
    """Document ids, and what is not an id.  Raises ValueError if `given` is no list, or too long for one message."""
    ids, skipped = [], []
    for number, value in enumerate(checked_list("ids", values, most=MAX_DELETED), start=1):
        try:
            ids.append(checked_id(given_id(value) or ""))
        except ValueError as error:
            skipped.append(Skipped(f"id {number}", LeftOut.WRONG_ID, str(error)))
    return ids, skipped
