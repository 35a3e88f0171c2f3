"""The documentation inside the running Python as documents: the docstrings of the built-ins and of often used modules, and the short
topics of the language reference in `pydoc`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from ingest.clean import clean_line, clean_text
from ingest.raw_documents import RawDocument

SOURCE = "python"

MODULES = (
    "abc", "argparse", "base64", "bisect", "calendar", "collections", "contextlib", "copy", "csv",
    "dataclasses", "datetime", "enum", "fnmatch", "fractions", "functools", "getpass", "glob", "graphlib",
    "gzip", "hashlib", "heapq", "hmac", "html", "json", "numbers", "operator", "os", "pathlib", "pickle",
    "queue", "random", "re", "sched", "secrets", "shelve", "shlex", "shutil", "sqlite3", "statistics",
    "string", "subprocess", "tempfile", "textwrap", "threading", "timeit", "tomllib", "types", "uuid",
    "warnings", "weakref", "zipfile", "zoneinfo",
)  # fmt: skip
"""Few enough that two cores embed everything in half a minute."""

MIN_WORDS = 8
"""Shorter texts add nothing to their title."""
LONGEST_SIGNATURE = 160
LONGEST_TOPIC = 9_000
"""In characters.  Longer topics are chapters, which repeat the shorter ones."""


def python_docs(modules: Iterable[str] = MODULES) -> Iterator[RawDocument]:
    """All documents, always in the same order, without copies and short texts.  The modules are imported.

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
    # The builtins come first: of two equal texts people look for theirs.
    for name in ("builtins", *sorted(modules)):
        with suppress(ImportError):  # a Python may be built without SQLite
            module = import_module(name)
            yield from _module(module)
            for _, part, _ in iter_modules(getattr(module, "__path__", ()), f"{name}."):
                if "._" not in part:
                    yield from _module(import_module(part))
    from pydoc_data.topics import topics

    for name, text in sorted(topics.items()):
        title, _, body = text.strip().partition("\n")
        if len(text) <= LONGEST_TOPIC:
            _, _, body = body.partition("\n")  # without the line under the title
            yield _document(f"topics/{name}", f"{name}: {title}", body, {"source_type": "topic"})


def _module(module: ModuleType) -> Iterator[RawDocument]:
    name, members = module.__name__, vars(module)
    where = {"parent": name}
    if is_library := name != "builtins":
        where["url"] = f"library/{name.partition('.')[0]}.html"
        yield _document(name, name, module.__doc__, {"source_type": "module", **where})
    own = [key for key, value in members.items() if getattr(value, "__module__", None) in (name, f"_{name}")]
    for member in sorted(members.get("__all__", own if is_library else members)):
        yield from _definition(f"{name}.{member}", members.get(member), "function", where)


def _definition(path: str, value: object, kind: str, where: Mapping[str, str]) -> Iterator[RawDocument]:
    """A public class with its methods, a function or a method; nothing for other values and second names (IOError)."""
    name = path.rpartition(".")[2]
    is_class = inspect.isclass(value)
    is_documented = is_class or inspect.isroutine(value) or isinstance(value, property)
    if name.startswith("_") or not is_documented or getattr(value, "__name__", name) != name:
        return
    short = path.removeprefix("builtins.")
    kind = "builtin" if short != path else "class" if is_class else kind
    yield _document(path, short + _signature(value), value.__doc__, {"source_type": kind, **where})
    if is_class:
        for member in sorted(vars(value)):
            yield from _definition(f"{path}.{member}", vars(value)[member], "method", where)


def _signature(value: object) -> str:
    try:
        signature = str(inspect.signature(getattr(value, "__func__", value)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""  # many functions in C have none; their text begins with it
    signature = re.sub(r"\((self|cls|type)(, /)?(, |(?=\)))", "(", signature)
    signature = re.sub(r"<[^<>]*>", "…", signature)  # an object as a default value
    return signature if len(signature) <= LONGEST_SIGNATURE else f"{signature[: LONGEST_SIGNATURE - 2]}…)"


def _document(path: str, title: str, text: str | None, metadata: Mapping[str, str]) -> RawDocument:
    text = clean_text(inspect.cleandoc(text or ""))
    return RawDocument(f"{SOURCE}/{path}", SOURCE, clean_line(title), text, metadata, path=path)
