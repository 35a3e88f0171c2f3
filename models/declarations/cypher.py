"""What can be read off a Cypher statement without a database: whether it writes, and which parameters it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PARAMETERS = ("question", "entities", "namespace", "limit")
FILTER_PARAMETER = "filter_"
"""`$filter_<field>`: the values that the filters allow for a field, or null."""

READ_ONLY = "the store is only read unless it says allow_write = true"

_FIELDS = ("cypher", "statement")
"""Names of the fields of a declaration that hold a statement."""
_ESCAPE = re.compile(r"\\u+([0-9A-Fa-f]{4})")
"""Neo4j decodes these before it reads a statement, also outside of strings."""
_TOKEN = re.compile(
    r"""
    (?P<parameter> \$ (?: `(?P<quoted>(?:[^`]|``)*)` | (?P<bare>\w+) ) )
    | //[^\r\n]* | /\*.*?(?:\*/|\Z)                                  # comments
    | '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z)            # strings
    | `(?P<name>(?:[^`]|``)*)(?:`|\Z)
    | \d+                                                            # `1.0SET` is a number and a word
    | (?P<word> [^\W\d]\w* )
    | (?P<sign> [.({] )
    """,
    re.VERBOSE | re.DOTALL,
)
_WRITING = re.compile(
    "CREATE|INSERT|MERGE|SET|DETACH|NODETACH|DELETE|REMOVE|DROP|FOREACH|LOAD|ALTER|RENAME|GRANT|DENY|REVOKE",
    re.IGNORECASE,
)
_READING_CALLS = re.compile(
    r"[^.]*"  # a procedure of Neo4j has a dot in its name; one without is an algorithm of the embedded graph
    r"|db\.(labels|relationshiptypes|propertykeys|info|ping|schema\.\w+|index\.(fulltext|vector)\.query\w+)"
    r"|apoc\.(algo|meta|neighbors|path|search|text)\.\w+(\.\w+)*"
    r"|gds\.(\w+\.)+stream|dbms\.components",
    re.IGNORECASE,
)


def statements(options: Any) -> Iterator[str]:
    """The statements of a declaration: its texts under the names `cypher` and `statement`, at any depth."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            if name in _FIELDS and isinstance(value, str):
                yield value
            else:
                yield from statements(value)
    elif isinstance(options, list | tuple):
        for value in options:
            yield from statements(value)


def writing_word(statement: str) -> str | None:
    """The first word with which the statement writes; None if it only reads.

    Comments, strings and names in backticks do not count.  A bare name that is spelled like a writing keyword does, and so does
    a procedure that is not known to read.
    """
    # A database that does not decode escapes before it reads may see other strings.
    return _writing_word(statement) or _writing_word(decoded(statement))


def write_complaint(word: str | None, why: str) -> str | None:
    """The complaint about a statement with this writing word; `why` says why the store refuses it."""
    if word is None:
        return None
    return f"the statement writes ({word}): {why}; put a name that is spelled like a keyword into backticks"


def parameters(statement: str) -> frozenset[str]:
    """The names of the parameters, without `$`."""
    tokens = _TOKEN.finditer(decoded(statement))
    return frozenset(
        token["bare"] or token["quoted"].replace("``", "`") for token in tokens if token["parameter"]
    )


def unknown_parameters(statement: str) -> list[str]:
    """The parameters that no branch gives a value."""
    return sorted(
        name
        for name in parameters(statement)
        if name not in PARAMETERS and not name.startswith(FILTER_PARAMETER)
    )


def _writing_word(statement: str) -> str | None:
    tokens = [
        token for token in _TOKEN.finditer(statement) if token["word"] or token["sign"] or token["name"]
    ]
    for place, token in enumerate(tokens):
        word = token["word"] or ""
        if _WRITING.fullmatch(word):
            return word
        if word.upper() == "CALL" and not _READING_CALLS.fullmatch(called := _called(tokens[place + 1 :])):
            return f"{word} {called}"
    return None


def _called(tokens: Sequence[re.Match[str]]) -> str:
    """The name of the procedure that these tokens begin with; empty for a subquery."""
    parts: list[str] = []
    for token in tokens:
        is_dot = token["sign"] == "."
        if bool(token["sign"]) != is_dot or is_dot == (len(parts) % 2 == 0):
            break
        parts.append(token["word"] or token["name"] or ".")
    return "".join(parts)


def decoded(statement: str) -> str:
    """The statement as Neo4j reads it, without escapes such as `\\u0053`."""
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), statement)
