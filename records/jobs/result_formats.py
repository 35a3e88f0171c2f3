"""A job's result lines in the formats of `chorale jobs results`, as bytes, with a few lines in memory at a time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

from models.batching import in_batches
from models.errors import ServiceError
from records.jobs.job import SEGMENT_LINES

ResultLine = Mapping[str, Any]
Writer = Callable[[Iterable[ResultLine]], Iterator[bytes]]

CSV_COLUMNS = (
    "line",
    "id",
    "question",
    "status",
    "rank",
    "document_id",
    "score",
    "title",
    "snippet",
    "error",
    "text",
    "metadata",
)

FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")
PAGE_BYTES = 1_000_000
"""A page of results ends after the line that exceeds this size."""
ROW_GROUP_LINES = 4_096
ROW_GROUP_BYTES = 32 * 1024 * 1024
"""A row group of Parquet ends when it has so many lines or bytes."""


class UnknownFormat(ServiceError):
    """No writer has this name; the message lists the formats."""


class ParquetMissing(ServiceError):
    """`pyarrow` is not installed."""


def writer_of(form: str) -> Writer:
    """The writer of a format.  Raises UnknownFormat."""
    if form not in FORMATS:
        raise UnknownFormat(f"format: {form!r}; there are: {', '.join(FORMATS)}")
    return FORMATS[form]


def page_of(lines: Iterable[ResultLine]) -> Iterator[ResultLine]:
    """The first result lines, of about PAGE_BYTES as JSON."""
    size = 0
    for line in lines:
        yield line
        size += len(to_json(line))
        if size > PAGE_BYTES:
            return


def _without_formula(value: Any) -> Any:
    """The value, with an apostrophe before a text that a spreadsheet would compute (OWASP, CSV injection)."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_BEGINS) else value


def as_jsonl(lines: Iterable[ResultLine]) -> Iterator[bytes]:
    """The result lines as they are, each as one line of JSON."""
    for line in lines:
        yield to_json(line) + b"\n"


def as_csv(lines: Iterable[ResultLine], *, cell: Callable[[Any], Any] = _without_formula) -> Iterator[bytes]:
    """One row a hit, with a header; an answer without hits has one row with empty fields of a hit.

    `question` counts the questions of a line, from 1; `status` is the question's.  `metadata` is JSON.  `cell` changes each value.
    """
    written = _Written()
    # As RFC 4180 says; with "\n" alone Python 3.11 leaves a carriage return in a text unquoted.
    rows = csv.writer(written, lineterminator="\r\n")
    rows.writerow(CSV_COLUMNS)
    for line in lines:
        for number, answer in enumerate(_answers(line), start=1):
            head = (line["line"], line["id"], number, answer["status"])
            for hit in answer["hits"] or [{}]:
                row = (
                    *head,
                    *(hit.get(name) for name in ("rank", "document_id", "score", "title")),
                    _snippet(hit),
                    line.get("error"),
                    answer.get("text"),
                    to_json(line["metadata"]).decode() if "metadata" in line else None,
                )
                rows.writerow([cell(value) for value in row])
        yield written.drain()
    yield written.drain()


def as_trec(lines: Iterable[ResultLine]) -> Iterator[bytes]:
    """`qid Q0 document rank score chorale`, as trec_eval and ir-measures read it.

    The qid is the line's id, and `<id>.<n>` for question n of a line with several.  White space in an id is written as
    `%20`.  The format has no place for a line without hits, so such lines are absent.
    """
    for line in lines:
        answers = _answers(line)
        for number, answer in enumerate(answers, start=1):
            query = _word(line["id"] if len(answers) == 1 else f"{line['id']}.{number}")
            for hit in answer["hits"]:
                row = f"{query} Q0 {_word(hit['document_id'])} {hit['rank']} {hit['score']!r} chorale\n"
                yield row.encode()


def as_parquet(lines: Iterable[ResultLine]) -> Iterator[bytes]:
    """One row a line; `hits` is a list of structs, and `questions` has the answers of a line with several questions.

    `snippet` is the snippet's text.  `metadata`, `removed`, `relaxed`, `context` and `signals` are JSON; `more` is a JSON object with the other fields of a hit
    (explanation, rerank, folded).  Raises ParquetMissing before anything is written.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ParquetMissing(
            "`pyarrow` is not installed; `make parquet` or `pip install pyarrow` installs it"
        ) from None
    schema = _schema(pa)
    file = _Written()
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        group: list[Any] = []
        rows = size = 0
        for batch in in_batches(lines, SEGMENT_LINES):
            group.append(pa.RecordBatch.from_pylist([_row(line) for line in batch], schema=schema))
            rows, size = rows + len(batch), size + group[-1].nbytes
            if rows >= ROW_GROUP_LINES or size >= ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(group))
                yield file.drain()
                group.clear()
                rows = size = 0
        if group:
            writer.write_table(pa.Table.from_batches(group))
    yield file.drain()


FORMATS: dict[str, Writer] = {
    "jsonl": as_jsonl,
    "csv": as_csv,
    "csv-raw": partial(as_csv, cell=lambda value: value),
    "parquet": as_parquet,
    "trec": as_trec,
}
"""Writer by the name of its format."""

_OBJECTS = ("removed", "relaxed", "context", "signals")
_HIT_NUMBERS = ("rank", "score")
_HIT_TEXTS = ("document_id", "passage_id", "score_kind", "title", "text", "source_type", "published_at", "language", "url")  # fmt: skip
_HIT_FIELDS = frozenset({*_HIT_NUMBERS, *_HIT_TEXTS, "snippet", "found_by", "metadata"})


def _schema(pa: Any) -> Any:
    text = pa.string()
    hit = pa.struct(
        [
            ("rank", pa.int32()),
            ("score", pa.float64()),
            *((name, text) for name in _HIT_TEXTS),
            ("snippet", text),
            ("found_by", pa.list_(text)),
            ("metadata", text),
            ("more", text),
        ]
    )
    answer = [("text", text), ("status", text), ("coverage", pa.float64()), ("hits", pa.list_(hit))]
    answer += [("confidence", pa.float64()), ("abstained", pa.bool_())]
    answer += [(name, text) for name in _OBJECTS]
    degraded = pa.struct([("where", text), ("reason", text), ("detail", text)])
    return pa.schema(
        [
            ("line", pa.int64()),
            ("id", text),
            *answer,
            ("questions", pa.list_(pa.struct(answer))),
            ("degraded", pa.list_(degraded)),
            ("warnings", pa.list_(text)),
            ("error", text),
            ("deduplicated", pa.bool_()),
            ("metadata", text),
        ]
    )


def _row(line: ResultLine) -> dict[str, Any]:
    row = _answer(line)
    if "metadata" in line:
        row["metadata"] = to_json(line["metadata"]).decode()
    if (questions := line.get("questions")) is not None:
        row["questions"] = [_answer(question) for question in questions]
    return row


def _answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    row = {**answer, **{name: to_json(answer[name]).decode() for name in _OBJECTS if name in answer}}
    if (hits := answer.get("hits")) is not None:
        row["hits"] = [_hit(hit) for hit in hits]
    return row


def _hit(hit: Mapping[str, Any]) -> dict[str, Any]:
    row = {**hit, "snippet": _snippet(hit)}
    if (metadata := hit.get("metadata")) is not None:
        row["metadata"] = to_json(metadata).decode()
    if hit.keys() - _HIT_FIELDS:
        row["more"] = to_json(
            {name: value for name, value in hit.items() if name not in _HIT_FIELDS}
        ).decode()
    return row


def _answers(line: ResultLine) -> list[Mapping[str, Any]]:
    """The answers to the line's questions; an answer has `status` and `hits`."""
    return line.get("questions") or [line]


def _snippet(hit: Mapping[str, Any]) -> str | None:
    return (hit.get("snippet") or {}).get("text")


def _word(text: str) -> str:
    return re.sub(r"\s", lambda match: quote(match[0]), text)


class _Written(io.RawIOBase):
    """A file whose parts `drain` returns and removes; `csv` writes texts, and Parquet bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        raw = part.encode() if isinstance(part, str) else bytes(part)
        self._parts.append(raw)
        self._size += len(raw)
        return len(raw)

    def tell(self) -> int:
        return self._size

    def drain(self) -> bytes:
        """What was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
