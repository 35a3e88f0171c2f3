"""A pipeline file as a table, and the lines of its keys: TOML, or YAML if its name ends in `.yaml` or `.yml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from config import declaration_errors

Keys = tuple[str, ...]


class _Loader(yaml.SafeLoader):
    """Refuses aliases, because nested aliases of a few hundred bytes stand for billions of values."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (`*name`) are not allowed", problem_mark=mark)
        return super().compose_node(parent, index)


class WrongSyntax(ValueError):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def is_yaml(file: Path) -> bool:
    return file.suffix.lower() in (".yaml", ".yml")


def read_table(file: Path, text: str) -> Any:
    """Raises WrongSyntax."""
    return _from_yaml(text) if is_yaml(file) else _from_toml(text)


def line_of(file: Path, text: str, path: Keys) -> int:
    """The line, from 1, of the key or table at `path`, else of the nearest table around it, else 1."""
    if not is_yaml(file):
        return declaration_errors.line_of(text, path)
    lines = dict(_keys(yaml.compose(text, _Loader)))
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


def _from_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(place[1]) if place else len(text.splitlines())
        message = str(error)[: place.start()] if place else str(error)
        raise WrongSyntax(f"not valid TOML: {message}", line) from error


def _from_yaml(text: str) -> Any:
    try:
        seen: dict[Keys, int] = {}
        for keys, line in _keys(yaml.compose(text, _Loader)):
            if keys in seen:
                raise WrongSyntax(
                    f"not valid YAML: {keys[-1]!r} is declared in line {seen[keys]} already", line
                )
            seen[keys] = line
        return yaml.safe_load(text) or {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise WrongSyntax(f"not valid YAML: {error.problem or error.context}", line) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise WrongSyntax(f"not valid YAML: {str(error).partition(chr(10))[0]}", 1) from error


def _keys(node: yaml.Node | None, above: Keys = ()) -> Iterator[tuple[Keys, int]]:
    """The path and line of every key.  Raises WrongSyntax for a key that is no text."""
    if isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            yield from _keys(value, (*above, str(place)))
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag != "tag:yaml.org,2002:str":
                raise WrongSyntax("not valid YAML: a key is no text; put it into quotation marks", line)
            yield (*above, key.value), line
            yield from _keys(value, (*above, key.value))
