"""A judged collection in the BEIR layout: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

from chorale_client.errors import safe_repr
from chorale_client.limits import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, MAX_LINES

from ingest.document_ids import checked_id, normalised
from models.errors import WrongDeclaration

Judgements = Mapping[str, Mapping[str, int]]
"""Grades by question id and document id; 0 means judged and not relevant."""


class WrongCollection(WrongDeclaration):
    """The folder is not a collection in the BEIR layout; the message names the file and the fault."""


@dataclass(frozen=True, slots=True)
class Collection:
    """The questions and judgements of a collection; the corpus is read during indexing."""

    name: str
    """The folder's name."""
    corpus: Path
    questions: Mapping[str, str]
    """Texts of the judged questions by question id, in the order of the judgements."""
    judgements: Judgements
    own: Set[str] = frozenset()
    """Ids of questions that are themselves documents, with the same id and text (ArguAna); no answer to a question is itself."""

    @property
    def exclusion_note(self) -> str:
        """A sentence on `own`; empty if there are none."""
        count = len(self.own & self.questions.keys())
        documents = "1 document that is" if count == 1 else f"{count:,} documents that are"
        return f"left out of the answers: {documents} the question itself (same id and text)" if count else ""

    @property
    def namespace(self) -> str:
        """The corpus' own namespace."""
        return f"eval-{re.sub(r'[^a-z0-9_-]+', '-', self.name.lower())}"[:63]

    def limited(self, questions: int | None) -> Collection:
        """The collection with only its first `questions` questions; None: all of them."""
        first = dict(islice(self.questions.items(), questions))
        return replace(self, questions=first, judgements={id_: self.judgements[id_] for id_ in first})

    def count_documents(self) -> int:
        """Number of non-empty lines in the corpus."""
        documents, is_new = 0, True
        with self.corpus.open("rb") as stream:
            while raw := stream.readline(MAX_LINE_BYTES):
                documents += is_new and bool(raw.strip())
                is_new = raw.endswith(b"\n")
        return documents


def read_collection(folder: Path, split: str) -> Collection:
    """Read the questions and judgements; raises WrongCollection."""
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    qrels = folder / "qrels" / f"{split}.tsv"
    if not qrels.is_file() and (splits := sorted(file.stem for file in (folder / "qrels").glob("*.tsv"))):
        raise WrongCollection(f"{folder}: no split {split!r}; there are: {', '.join(splits)}")
    for file in (corpus, queries, qrels):
        if not file.is_file():
            raise WrongCollection(
                f"{file} is missing: a collection in the BEIR layout has corpus.jsonl, queries.jsonl and qrels/"
            )
    judgements = _read_judgements(qrels)
    texts = dict(_read_questions(queries))
    if unknown := [question_id for question_id in judgements if question_id not in texts]:
        raise WrongCollection(f"{queries}: no question {unknown[0]!r}, which {qrels} has judgements for")
    questions = {question_id: texts[question_id] for question_id in judgements}
    own = frozenset(_own_documents(corpus, questions))
    return Collection(folder.resolve().name, corpus, questions, judgements, own)


def _own_documents(corpus: Path, questions: Mapping[str, str]) -> Iterator[str]:
    """Ids of the questions whose text is that of the document with the same id, perhaps below its title."""
    with corpus.open("rb") as stream:
        while raw := stream.readline(MAX_DOCUMENT_BYTES + 1):
            # Indexing reports what is no JSON.
            with suppress(ValueError, TypeError, AttributeError, RecursionError):
                row = json.loads(raw)
                id_ = str(row.get("_id", row.get("id"))).strip()
                if id_ in questions and normalised(questions[id_]) in (
                    normalised(str(row.get("text"))),
                    normalised(f"{row.get('title')} {row.get('text')}"),
                ):
                    yield id_


def _read_judgements(file: Path) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for line, text in text_lines(file):
        row = text.split("\t")
        if line == 1 and row[-1].strip() == "score":
            continue
        try:
            question_id, document_id, grade = row
            # Indexing normalises ids in the same way.
            judgements.setdefault(question_id.strip(), {})[checked_id(document_id)] = int(grade)
        except ValueError:
            raise WrongCollection(
                f"{file}, line {line}: not `question id, document id, whole number` between tabs: {safe_repr(text)}"
            ) from None
    if not judgements:
        raise WrongCollection(f"{file}: no judgements")
    return judgements


def _read_questions(file: Path) -> Iterator[tuple[str, str]]:
    for line, text in text_lines(file):
        try:
            row = json.loads(text)
            yield str(row["_id"]).strip(), str(row["text"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise WrongCollection(f"{file}, line {line}: not a JSON object with `_id` and `text`") from None


def text_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers; one that is too long is never in memory as a whole."""
    with file.open("rb") as stream:
        for line in count(1):
            if not (raw := stream.readline(MAX_LINE_BYTES + 1)):
                return
            if len(raw) > MAX_LINE_BYTES:
                raise WrongCollection(f"{file}, line {line}: longer than {MAX_LINE_BYTES:,} bytes")
            if line > MAX_LINES:
                raise WrongCollection(f"{file}, line {line}: more than {MAX_LINES:,} lines")
            try:
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise WrongCollection(f"{file}, line {line}: not UTF-8") from None
            if text.strip():
                yield line, text
