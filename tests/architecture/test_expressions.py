"""Regular expressions of the product keep no process busy.  Each expression searches long texts that almost match it."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from re import _parser as parser

import pytest

from tests.architecture.product import PRODUCT, ROOT, nodes

pytestmark = pytest.mark.slow

LENGTH = 600
LIMIT_S = 0.25
"""Seconds of processor time for one text.  A quadratic expression needs hundredths of a second, a cubic one more than this limit."""
MOST_LETTERS = 10
FUNCTIONS = {"compile", "match", "search", "fullmatch", "sub", "subn", "findall", "finditer", "split"}


def expressions() -> Iterator[tuple[str, str]]:
    """Each constant expression, with its file before it as a name."""
    for file in PRODUCT:
        for node in nodes(file):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=name),
                    args=[ast.Constant(value=str(pattern)), *_],
                ) if name in FUNCTIONS:
                    yield f"{file.relative_to(ROOT)}: {pattern}", pattern


def characters(pattern: str) -> list[str]:
    """A letter, a digit, a space, a quote, a backslash, and characters that the expression names."""
    named: set[str] = set()

    def walk(parsed: object) -> None:
        if isinstance(parsed, int) and not isinstance(parsed, bool) and 0 < parsed < 0x10FFFF:
            named.add(chr(parsed))
        elif isinstance(parsed, (list, tuple, parser.SubPattern)):
            for part in parsed:
                walk(part)

    walk(parser.parse(pattern))
    usual = ["a", "0", " ", '"', "\\"]
    return list(dict.fromkeys([*usual, *sorted(one for one in named if one.isprintable())]))[:MOST_LETTERS]


def almost_matching(pattern: str) -> Iterator[str]:
    letters = characters(pattern)
    for first in letters:
        yield first * LENGTH + "\0"
        for second in letters:
            yield (first + second) * (LENGTH // 2) + "\0"
            yield first * (LENGTH // 2) + second * (LENGTH // 2) + "\0"


def reads_quickly(place: str, pattern: str) -> None:
    expression = re.compile(pattern)
    for text in almost_matching(pattern):
        begun_s = time.process_time()
        expression.search(text)
        assert time.process_time() - begun_s < LIMIT_S, (place, text[:40])


def test_an_expression_reads_a_long_text_in_little_time() -> None:
    for place, pattern in expressions():
        reads_quickly(place, pattern)


def test_an_expression_that_takes_the_cube_of_the_length_is_noticed() -> None:
    """This expression once read `Prefer`."""
    cubic = r'([\w!#]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s,;"]*))?\s*(?:;[^,]*)?(?:,|$)'
    with pytest.raises(AssertionError):
        reads_quickly("this file", cubic)


MOST_COPIES = 8


def copies(parsed: object, times: int = 1) -> int:
    """How often the compiled expression has one Unicode class, at most: an automaton copies what it counts."""
    match parsed:
        case (parser.MAX_REPEAT, (_, int(most), inside)):
            return copies(inside, 1 if most == parser.MAXREPEAT else times * most)
        case (parser.CATEGORY, _):
            return times
        case list() | tuple() | parser.SubPattern():
            return max((copies(part, times) for part in parsed), default=0)
    return 0


def test_no_declared_pattern_copies_a_unicode_class_many_times() -> None:
    """pydantic compiles it in each process that starts: 127 copies of one class took nearly a tenth of a command's time."""
    declared = [
        keyword.value.value
        for file in PRODUCT
        for node in nodes(file)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "pattern" and isinstance(keyword.value, ast.Constant)
    ]
    assert copies(parser.parse(r"^\w[\w./-]{0,127}$")) == 127
    assert len(declared) > 5
    assert [pattern for pattern in declared if copies(parser.parse(pattern)) > MOST_COPIES] == []
