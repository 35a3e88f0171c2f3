"""Reads the documentation inside the running Python, which the demo searches: no download is needed.

Docstrings of the standard library are read with `ast`, without importing a module.  The builtins come from `inspect`,
the language reference from the topics of `pydoc`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from ingest.clean import clean_line, clean_text
from ingest.raw_documents import Markup, RawDocument

SOURCE = "python"

MODULES = (
    "abc", "argparse", "base64", "bisect", "calendar", "collections", "contextlib", "copy", "csv",
    "dataclasses", "datetime", "enum", "fnmatch", "fractions", "functools", "getpass", "glob", "graphlib",
    "gzip", "hashlib", "heapq", "hmac", "html", "json", "numbers", "operator", "os", "pathlib", "pickle",
    "queue", "random", "re", "sched", "secrets", "shelve", "shlex", "shutil", "sqlite3", "statistics",
    "string", "subprocess", "tempfile", "textwrap", "threading", "timeit", "tomllib", "types", "uuid",
    "warnings", "weakref", "zipfile", "zoneinfo",
)  # fmt: skip
"""Modules and whole packages to read: often used ones, few enough that two cores embed everything in half a minute."""

MIN_WORDS = 8
"""Shorter texts add nothing to their title."""
LONGEST_SIGNATURE = 160
_COPIED = 0.9
"""A section of a topic counts as a copy when this share of its words is in shorter topics."""

_LEFT_OUT = frozenset({"test", "tests", "idlelib", "lib2to3", "__pycache__", "site-packages"})
_UNDERLINES = ("*", "=", "-", "~", '"', "^")
_HEADING = re.compile(r"^(?P<title>\S.*)\n(?P<line>([*=\-~\"^])\3{2,})$", re.MULTILINE)


def python_docs(modules: Iterable[str] = MODULES) -> Iterator[RawDocument]:
    """All documents, always in the same order, without copies and short texts.

    Ids are `python/json.dumps`, `python/builtins.str.join`, `python/topics/assert`; titles the qualified name
    and the signature.  Metadata: `source_type` (module, class, function, method, builtin, topic), `parent` (the
    module) and `url` (below docs.python.org/3/), where there is one.
    """
    seen: set[str] = set()
    for document in _all(modules):
        words = document.text.split()
        text = " ".join(words).casefold()
        if len(words) >= MIN_WORDS and text not in seen and document.document_id not in seen:
            seen |= {text, document.document_id}
            yield document


def _all(modules: Iterable[str]) -> Iterator[RawDocument]:
    library = Path(ast.__file__).parent
    # The builtins come first: of two equal texts people look for theirs.
    yield from _builtins()
    yield from _topics()
    for name in sorted(modules):
        for module, file in _module_files(library, name):
            yield from _module_docs(module, file)


def _module_files(library: Path, name: str) -> Iterator[tuple[str, Path]]:
    if (file := library / f"{name}.py").is_file():
        yield name, file
    folder = library / name
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(library).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if not any(part.startswith("_") or part in _LEFT_OUT for part in parts):
            yield ".".join(parts), file


def _module_docs(module: str, file: Path) -> Iterator[RawDocument]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # some files of the library are invalid on purpose
    metadata = {"parent": module, "url": f"library/{module.partition('.')[0]}.html"}
    if text := ast.get_docstring(tree):
        yield _raw(module, module, text, {"source_type": "module", **metadata})
    for name, kind, title, text in _definitions(tree.body, module, is_class=False):
        yield _raw(name, title, text, {"source_type": kind, **metadata})


def _definitions(
    body: Iterable[ast.stmt], prefix: str, *, is_class: bool
) -> Iterator[tuple[str, str, str, str]]:
    """Qualified name, kind, title and text of the public definitions, also those under `if` and `try`."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            handlers = [handler.body for handler in getattr(node, "handlers", ())]
            branches = [node.body, *handlers, node.orelse, getattr(node, "finalbody", [])]
            for branch in branches:
                yield from _definitions(branch, prefix, is_class=is_class)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_"):
                continue
            name = f"{prefix}.{node.name}"
            text = ast.get_docstring(node)
            if isinstance(node, ast.ClassDef):
                if text:
                    yield name, "class", f"{name}{_constructor(node)}", text
                yield from _definitions(node.body, name, is_class=True)
            elif text:
                kind = "method" if is_class else "function"
                yield name, kind, f"{name}{_signature(node.args, drop_first=is_class)}", text


def _constructor(node: ast.ClassDef) -> str:
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            return _signature(member.args, drop_first=True)
    return ""


def _signature(arguments: ast.arguments, *, drop_first: bool) -> str:
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    written = ast.unparse(arguments)
    if drop_first:
        written = re.sub(r"^(self|cls|mcls|metacls)(, (/, )?|$)", "", written)
    return _shortened(f"({written})")


def _shortened(signature: str) -> str:
    return signature if len(signature) <= LONGEST_SIGNATURE else f"{signature[: LONGEST_SIGNATURE - 2]}…)"


def _builtins() -> Iterator[RawDocument]:
    for name, value in sorted(vars(builtins).items()):
        # The interactive helpers (`copyright`, `exit`) are instances and explain nothing.
        if name.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        if value.__name__ != name:
            continue  # IOError and EnvironmentError are OSError
        yield from _builtin(f"builtins.{name}", name, value)
        if inspect.isclass(value):
            for member in sorted(vars(value)):
                if not member.startswith("_"):
                    yield from _builtin(
                        f"builtins.{name}.{member}", f"{name}.{member}", getattr(value, member)
                    )


def _builtin(path: str, name: str, value: object) -> Iterator[RawDocument]:
    if text := inspect.getdoc(value):
        metadata = {"source_type": "builtin", "parent": "builtins"}
        yield _raw(path, name + _builtin_signature(value), text, metadata)


def _builtin_signature(value: object) -> str:
    try:
        signature = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""  # C functions have none; their text begins with it
    return _shortened(re.sub(r"\((self|type)(, /)?(, )?", "(", signature))


def _topics() -> Iterator[RawDocument]:
    from pydoc_data.topics import topics

    shorter: set[str] = set()
    originals: dict[str, str] = {}
    # The reference has a section alone and again in its chapter; the short topic is kept.
    for name, text in sorted(topics.items(), key=lambda topic: (len(topic[1]), topic[0])):
        sections = [section for section in _sections(text) if not _is_copy(section, shorter)]
        originals[name] = "".join(sections)
        shorter.update(_paragraphs(text))
    for name, text in sorted(originals.items()):
        heading = _HEADING.match(text)
        title = f"{name}: {heading['title']}" if heading else name
        body = text[heading.end() :] if heading else text
        yield _raw(f"topics/{name}", title, as_markdown(body), {"source_type": "topic"}, markup="markdown")


def _sections(text: str) -> list[str]:
    starts = [heading.start() for heading in _HEADING.finditer(text)]
    return [text[start:end] for start, end in pairwise(sorted({0, *starts, len(text)}))]


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _is_copy(section: str, known: Collection[str]) -> bool:
    sizes = {part: len(part.split()) for part in _paragraphs(section)}
    copied = sum(size for part, size in sizes.items() if part in known)
    return copied >= _COPIED * sum(sizes.values())


def as_markdown(text: str) -> str:
    """Turn the underlined headings of reStructuredText into those of Markdown."""
    return _HEADING.sub(
        lambda heading: f"{'#' * (_UNDERLINES.index(heading['line'][0]) + 1)} {heading['title']}",
        text.strip(),
    )


def _raw(
    path: str, title: str, text: str, metadata: Mapping[str, str], *, markup: Markup = "plain"
) -> RawDocument:
    return RawDocument(
        f"{SOURCE}/{path}", SOURCE, clean_line(title), clean_text(text), metadata, markup=markup, path=path
    )
