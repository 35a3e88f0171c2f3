"""Golden questions: those that somebody wants answered, each with the documents that should answer it.  They are read, asked, and the
answers judged: an expected document is among the first hits, or nothing where nothing answers.

A golden file has JSON lines with an object a line, or a YAML list of such mappings; docs/guides/golden.md describes the fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import fsum
from pathlib import Path
from typing import Any

import yaml
from chorale_client.answer import Answer, Hit, QuestionAnswer
from chorale_client.errors import InvalidRequest, safe_repr
from chorale_client.request import Request
from chorale_client.request_factory import make_request
from chorale_client.wire_names import Status

from evaluation.judged.collection import text_lines
from evaluation.judged.metrics import ndcg
from evaluation.judged.run import DEPTH, TIMEOUT_S, ranked_documents
from ingest.document_ids import checked_id
from models.bounded_yaml import BoundedLoader
from models.errors import WrongDeclaration

Lines = Mapping[str, int]
"""The line of each field, from 1; that of "" is the first line of the entry."""


class WrongGolden(WrongDeclaration):
    """The file holds no golden questions; the message names file, line and field."""


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """A question and what should answer it."""

    line: int
    """Where it stands in its file, from 1."""
    text: str
    expected: Mapping[str, int]
    """Grades >= 1 by document id; empty if no document answers the question."""
    namespace: str | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)


def read_golden(file: Path) -> list[GoldenQuestion]:
    """The questions in the file's order.  Raises WrongGolden with the first fault, and OSError."""
    if not file.is_file():
        raise WrongGolden(f"{file}: there is no such file")
    entries = {".yaml": _yaml_entries, ".yml": _yaml_entries, ".jsonl": _json_entries}.get(
        file.suffix.lower()
    )
    if entries is None:
        raise WrongGolden(f"{file}: a golden file is YAML (.yaml, .yml) or JSON lines (.jsonl)")
    questions = [_question(file, fields, lines) for fields, lines in entries(file)]
    if not questions:
        raise WrongGolden(f"{file}: no questions")
    first: dict[tuple[str, str | None, str], int] = {}
    for question in questions:
        same = first.setdefault((question.text, question.namespace, repr(question.filters)), question.line)
        if same != question.line:
            raise WrongGolden(f"{file}, line {question.line}, `question`: stands in line {same} already")
    return questions


def _json_entries(file: Path) -> Iterator[tuple[Any, Lines]]:
    for line, text in text_lines(file):
        try:
            yield json.loads(text), {"": line}
        except (ValueError, RecursionError):
            raise WrongGolden(f"{file}, line {line}: not a JSON object") from None


def _yaml_entries(file: Path) -> Iterator[tuple[Any, Lines]]:
    try:
        loader = BoundedLoader(file.read_text(encoding="utf-8-sig"))
        root = loader.get_single_node()
        if root is None:
            return
        if not isinstance(root, yaml.SequenceNode):
            raise WrongGolden(f"{file}, line {root.start_mark.line + 1}: not a list of questions")
        for node in root.value:
            lines = {"": node.start_mark.line + 1}
            if isinstance(node, yaml.MappingNode):
                for key, _ in node.value:
                    lines[str(key.value)] = key.start_mark.line + 1
            yield loader.construct_document(node), lines
    except UnicodeDecodeError:
        raise WrongGolden(f"{file}: not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise WrongGolden(f"{file}, line {mark.line + 1 if mark else 1}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise WrongGolden(f"{file}: not YAML: {safe_repr(str(error))}") from None


def _question(file: Path, fields: Any, lines: Lines) -> GoldenQuestion:
    def wrong(name: str, why: str) -> WrongGolden:
        field_note = f", `{name}`" if name else ""
        return WrongGolden(f"{file}, line {lines.get(name, lines[''])}{field_note}: {why}")

    if not isinstance(fields, dict):
        raise wrong("", "not an object with `question` and `expected`")
    if unknown := [name for name in fields if name not in _FIELDS]:
        raise wrong(str(unknown[0]), f"no such field; there are: {', '.join(_FIELDS)}")
    for name in ("question", "expected"):
        if name not in fields:
            raise wrong("", f"`{name}` is missing")
    parsed = {}
    for name, value in fields.items():
        try:
            parsed[name] = _FIELDS[name](value)
        except ValueError as error:
            raise wrong(name, str(error)) from None
    return GoldenQuestion(
        lines[""], parsed["question"], parsed["expected"], parsed.get("namespace"), parsed.get("filters", {})
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{safe_repr(value)} is not a text")
    return value


def _expected(value: Any) -> dict[str, int]:
    """An id, a list of ids, or grades by id."""
    grades = (
        list(value.items())
        if isinstance(value, dict)
        else [(id_, 1) for id_ in (value if isinstance(value, list) else [value])]
    )
    for id_, grade in grades:
        if not isinstance(id_, str):
            raise ValueError(
                f"{safe_repr(id_)} is not the id of a document (a text); [] says that nothing answers"
            )
        if type(grade) is not int or grade < 1:
            raise ValueError(
                f"the grade of {safe_repr(id_)} is not a whole number from 1: {safe_repr(grade)}"
            )
    # Indexing normalises ids in the same way.
    return {checked_id(id_): grade for id_, grade in grades}


def _filters(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object with conditions by field, as a request has it")
    return value


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "question": _text,
    "expected": _expected,
    "namespace": _text,
    "filters": _filters,
}


CUT = 10
"""Hits of a page; recall and nDCG read so many documents."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an expected document stands."""

    document_id: str
    rank: int | None
    """Among the first DEPTH documents; None if it is not there."""
    branches: Mapping[str, int]
    """Its rank by branch that found it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one golden question."""

    question: GoldenQuestion
    passed: bool
    ranked: Sequence[str]
    """The first CUT documents."""
    abstained: bool
    confidence: float | None
    missing: str
    """What the answer lacked (`search.hyde timeout`); empty if it is complete."""
    placements: Sequence[Placement] = ()
    """The expected documents, if the question failed."""

    def to_wire(self) -> dict[str, Any]:
        return {
            "line": self.question.line,
            "question": self.question.text,
            "passed": self.passed,
            "abstained": self.abstained,
            "confidence": self.confidence,
            "missing": self.missing,
            "ranked": list(self.ranked),
            "expected": dict(self.question.expected),
            "found": [asdict(placement) for placement in self.placements],
        }


def judge(
    questions: Sequence[GoldenQuestion],
    *,
    ask: Callable[[Request], Answer],
    top: int = 5,
    progress: Callable[[], None] = lambda: None,
    **options: Any,
) -> list[Verdict]:
    """Ask each question as a caller would, but without the cache, and judge the answer.

    A question passes if one of its documents is among the first `top`, or if nothing answers it and the answer
    abstains.  `options` are of the request; `namespace` is that of questions without one.  Raises WrongGolden for a
    question that no request can have, before the first request, and the exceptions of `ask`.
    """
    requests = [
        (question, _request(question, options, CUT), _request(question, options, DEPTH))
        for question in questions
    ]
    verdicts = []
    for question, request, deep in requests:
        verdict, hits = _judged(question, ask(request), top)
        if not verdict.passed and question.expected:
            hits = [*hits, *(hit for question in ask(deep).questions for hit in question.hits)]
            verdict = replace(verdict, placements=[_placement(id_, hits) for id_ in question.expected])
        verdicts.append(verdict)
        progress()
    return verdicts


def figures(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Mean recall and nDCG at CUT over the questions that a document answers; empty without such questions."""
    answerable = [verdict for verdict in verdicts if verdict.question.expected]
    if not answerable:
        return {}
    recalls = [recall(verdict.question.expected, verdict.ranked) for verdict in answerable]
    gains = [ndcg(verdict.ranked, verdict.question.expected) for verdict in answerable]
    return {"recall@10": fsum(recalls) / len(recalls), "ndcg@10": fsum(gains) / len(gains)}


def recall(grades: Mapping[str, int], ranked: Sequence[str]) -> float:
    """Share of the documents that are among the first CUT."""
    return len(grades.keys() & set(ranked[:CUT])) / len(grades)


def _request(question: GoldenQuestion, options: Mapping[str, Any], top_k: int) -> Request:
    own = {"namespace": question.namespace} if question.namespace else {}
    fields = {"timeout_s": TIMEOUT_S, "include": ["ids", "explanation"], "cache": "bypass", **options, **own}
    try:
        return make_request(question.text, top_k=top_k, filters=dict(question.filters), **fields)
    except InvalidRequest as error:
        raise WrongGolden(f"line {question.line}: {error}") from None


def _judged(question: GoldenQuestion, answer: Answer, top: int) -> tuple[Verdict, Sequence[Hit]]:
    # A request that was refused, or failed as a whole, has no questions.
    judged = answer.questions[0] if answer.questions else QuestionAnswer(status=answer.status)
    ranked = ranked_documents(judged)[:CUT]
    missing = ", ".join(f"{what.where} {what.reason}" for what in answer.degraded)
    if judged.status not in (Status.COMPLETE, Status.SKIPPED):
        missing = missing or judged.status
    if question.expected:
        passed = any(id_ in question.expected for hit in judged.hits[:top] for id_ in _documents(hit))
    else:
        passed = judged.abstained
    return Verdict(question, passed, ranked, judged.abstained, judged.confidence, missing), judged.hits


def _placement(document_id: str, hits: Iterable[Hit]) -> Placement:
    """`hits`: those of the page, then those of the deep answer."""
    for hit in hits:
        if document_id in _documents(hit):
            ranks = {name: branch.rank for name, branch in hit.branches.items() if branch.rank}
            return Placement(document_id, hit.rank, ranks)
    return Placement(document_id, None, {})


def _documents(hit: Hit) -> list[str]:
    """The document and its copies: each is as good an answer as the other."""
    return [hit.document_id, *(copy.document_id for copy in hit.folded)]
