"""A golden file: the questions that somebody wants answered, each with the documents that should answer it.

JSON lines with an object a line, or a YAML list of such mappings; docs/guides/golden.md describes the fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from chorale_client.errors import safe_repr

from config.declaration_file import Loader
from evaluation.collection import text_lines
from ingest.document_ids import checked_id
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
        loader = Loader(file.read_text(encoding="utf-8-sig"))
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
        of_field = f", `{name}`" if name else ""
        return WrongGolden(f"{file}, line {lines.get(name, lines[''])}{of_field}: {why}")

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
