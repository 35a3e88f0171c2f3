"""A pipeline file as a table, and the lines of its keys: TOML, or YAML if its name ends in `.yaml` or `.yml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

if TYPE_CHECKING:
    import yaml

Keys = tuple[str, ...]
_MOST_CHARACTERS = 100_000
_QUOTED = re.compile(r'''"""(?s:.*?)"""|\'{3}(?s:.*?)\'{3}|"(?:\\.|[^"\\\n])*+"?|\'[^\'\n]*+\'?|#.*''')
"""The texts and comments of TOML.  A text without its second quotation mark is one too, so that nothing is searched twice."""
_LONG_KEY = re.compile(r"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){32}")
"""`tomllib` takes time in proportion to the square of the number of parts."""
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")


def _toml_keys(text: str) -> Iterator[tuple[Keys, int]]:
    """The path and line of every table and key.  `tomllib` keeps no positions, and the text is not parsed: a line of a
    multi-line string that looks like a key counts as a key."""
    table: Keys = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            yield table, number
        elif key := _KEY.match(line):
            yield table + _parts(key[1]), number


def _parts(dotted: str) -> Keys:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


_WANTED = "Input should be "


def complaints(error: ValidationError, table: Mapping[str, Any]) -> Iterator[tuple[Keys, str, str]]:
    """Keys, kind of error and message of each error.

    For a field with alternative types pydantic reports an error for each type, with the type in the place; these are
    merged into one.
    """
    messages_at: dict[Keys, list[tuple[str, str]]] = {}
    for fault in error.errors(include_url=False, include_input=False):
        place = _place(fault["loc"], table, missing=fault["type"] in ("missing", "extra_forbidden"))
        messages_at.setdefault(place, []).append((fault["type"], fault["msg"].removeprefix("Value error, ")))
    for place, messages in messages_at.items():
        inside = any(other[: len(place)] == place for other in messages_at if len(other) > len(place))
        apt = [(kind, text) for kind, text in messages if not kind.endswith("_type")]
        if apt:
            yield from ((place, kind, text) for kind, text in apt)
        elif not inside:
            texts = [text.removeprefix(_WANTED) for _, text in messages]
            yield place, messages[0][0], _WANTED + " or ".join(texts) if len(texts) > 1 else messages[0][1]


def _place(loc: tuple[int | str, ...], table: Any, *, missing: bool) -> Keys:
    """Only the parts of `loc` that are keys or positions in the table; the others are names of types."""
    place: list[str] = []
    for part in loc:
        is_in = (
            part in table if isinstance(table, Mapping) else isinstance(table, list) and isinstance(part, int)
        )
        if is_in or (missing and part == loc[-1]):
            place.append(str(part))
        if is_in:
            table = table[part]
    return tuple(place)


class WrongSyntax(ValueError):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def is_yaml(file: Path) -> bool:
    return file.suffix.lower() in (".yaml", ".yml")


def read_table(file: Path, text: str) -> Any:
    """Raises WrongSyntax."""
    return _from_yaml(text) if is_yaml(file) else _from_toml(text)


def _check_size(text: str, most: int) -> None:
    if len(text) > most:
        raise WrongSyntax(f"has {len(text):,} characters, of at most {most:,}", 1)


def line_of(file: Path, text: str, path: Keys) -> int:
    """The line, from 1, of the key or table at `path`, else of the nearest table around it, else 1."""
    lines = _lines(text, is_yaml(file))
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


@lru_cache(maxsize=1)
def _lines(text: str, is_yaml: bool) -> Mapping[Keys, int]:
    if not is_yaml:
        return dict(reversed([*_toml_keys(text)]))
    import yaml

    from models.bounded_yaml import BoundedLoader

    return dict(_yaml_keys(yaml.compose(text, BoundedLoader)))


def _from_toml(text: str) -> dict[str, Any]:
    _check_size(text, _MOST_CHARACTERS)
    bare = _QUOTED.sub(lambda quoted: "s" + "\n" * quoted[0].count("\n"), text)
    if long_key := _LONG_KEY.search(bare):
        raise WrongSyntax("a key has more than 32 parts", bare.count("\n", 0, long_key.start()) + 1)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(place[1]) if place else len(text.splitlines())
        message = str(error)[: place.start()] if place else str(error)
        raise WrongSyntax(f"not valid TOML: {message}", line) from error
    except RecursionError:
        raise WrongSyntax("not valid TOML: nested too deeply", 1) from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise WrongSyntax(f"not valid TOML: {error}", 1) from error


def _from_yaml(text: str) -> Any:
    import yaml

    from models.bounded_yaml import MOST_CHARACTERS, BoundedLoader

    _check_size(text, MOST_CHARACTERS)
    loader = BoundedLoader(text)
    try:
        node = loader.get_single_node()
        seen: dict[Keys, int] = {}
        for keys, line in _yaml_keys(node):
            if keys in seen:
                raise WrongSyntax(
                    f"not valid YAML: {keys[-1]!r} is declared in line {seen[keys]} already", line
                )
            seen[keys] = line
        return (node and loader.construct_document(node)) or {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise WrongSyntax(f"not valid YAML: {error.problem or error.context}", line) from error
    except RecursionError:
        raise WrongSyntax("not valid YAML: nested too deeply", 1) from None
    except yaml.YAMLError as error:
        raise WrongSyntax(f"not valid YAML: {str(error).partition(chr(10))[0]}", 1) from error
    finally:
        loader.dispose()


def _yaml_keys(node: yaml.Node | None, above: Keys = ()) -> Iterator[tuple[Keys, int]]:
    """The path and line of every key.  Raises WrongSyntax for a key that is no text."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            yield from _yaml_keys(value, (*above, str(place)))
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag != "tag:yaml.org,2002:str":
                raise WrongSyntax("not valid YAML: a key is no text; put it into quotation marks", line)
            yield (*above, key.value), line
            yield from _yaml_keys(value, (*above, key.value))
