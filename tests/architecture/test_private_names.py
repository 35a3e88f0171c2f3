"""Undocumented names of Celery and kombu stand in one list, and only one folder uses them."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.celery_internals.visibility import BINDINGS, KOMBU
from tests.architecture.product import PRODUCT, ROOT, nodes, texts

INTERNALS = ROOT / "tasks" / "celery_internals"
LIST = (INTERNALS / "private_names.md").read_text(encoding="utf-8")
FINGERPRINTS = dict(re.findall(r"^\| `(\S+:\S+)` \|.*\| `(.*)` \|$", LIST, re.MULTILINE))
ON_THE_INTERNALS = list(INTERNALS.glob("*.py"))
OUTSIDE = [file for file in PRODUCT if file not in ON_THE_INTERNALS]

MENTIONS = re.compile(r"celery|kombu|billiard")

DOCUMENTED = {
    "celery": {"Celery", "chord", "signals"},
    "celery.canvas": {"Signature"},
    "celery.exceptions": {"Ignore", "Reject", "TimeoutError", "WorkerShutdown", "WorkerTerminate"},
    "celery.platforms": {"SecurityWarning"},
    "kombu": {"Connection", "Exchange", "Producer", "Queue"},
    "kombu.exceptions": {"ChannelError", "ConnectionError", "KombuError", "OperationalError"},
    "kombu.utils.url": {"parse_url"},
}
"""The names that modules outside the surface may import."""


def resolved(name: str) -> Any:
    module, _, path = name.partition(":")
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = inspect.getattr_static(value, part)
    return value.fget if isinstance(value, property) else getattr(value, "func", value)


def test_every_name_on_the_list_has_a_fingerprint() -> None:
    assert len(FINGERPRINTS) == LIST.count("\n| `") > 40


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_a_private_name_of_celery_is_unchanged(name: str) -> None:
    value, expected = resolved(name), FINGERPRINTS[name]
    if expected == "any":
        return
    if isinstance(value, type):
        now = "class"
    elif not callable(value):
        now = repr(value)
    elif expected.startswith("("):
        now = str(inspect.signature(value))
    else:
        now = hashlib.sha256(inspect.getsource(value).encode()).hexdigest()[:12]
    assert now == expected, f"{name} has changed: see tasks/celery_internals/private_names.md"


def test_the_keys_of_kombu_have_the_prefixes_that_we_declare() -> None:
    redis = "kombu.transport.redis:Channel."
    assert resolved(redis + "keyprefix_queue").startswith(BINDINGS)
    assert BINDINGS.startswith(KOMBU)


def test_each_private_attribute_that_the_surface_uses_is_on_the_list() -> None:
    listed = set(re.findall(r"\b_[a-z]\w*", LIST))
    for file in ON_THE_INTERNALS:
        used = {node.attr for node in private_attributes(file)}
        assert used - own_names(file) <= listed, file.name


def test_only_the_surface_uses_private_names_of_celery() -> None:
    for file in (file for file in OUTSIDE if MENTIONS.search(file.read_text(encoding="utf-8"))):
        imported = dict(celery_imports(file))
        undocumented = {
            name for name, module in imported.items() if name not in DOCUMENTED.get(module, set())
        }
        if imported:
            undocumented |= {node.attr for node in private_attributes(file) if not is_own(node)}
            undocumented |= bases(file) & imported.keys()
        keys = [text for text in texts(file) if "_kombu." in text]
        assert (undocumented, keys) == (set(), []), file


def celery_imports(file: Path) -> Iterator[tuple[str, str]]:
    """Returns (name, module) of each import from Celery's packages."""
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and is_celery(node.module or ""):
            yield from ((name.name, node.module or "") for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, name.name) for name in node.names if is_celery(name.name))


def private_attributes(file: Path) -> Iterator[ast.Attribute]:
    for node in nodes(file):
        if isinstance(node, ast.Attribute) and re.match(r"_(?!replace)[a-z]", node.attr):
            yield node


def bases(file: Path) -> set[str]:
    """Returns the base classes of the classes in this file."""
    classes = (node for node in nodes(file) if isinstance(node, ast.ClassDef))
    return {ast.unparse(base).rpartition(".")[2] for node in classes for base in node.bases}


def is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def own_names(file: Path) -> set[str]:
    """Returns the private names that the classes of this file define, without those that they override."""
    defined = {node.name for node in nodes(file) if isinstance(node, ast.FunctionDef)}
    assigned = {node.attr for node in private_attributes(file) if isinstance(node.ctx, ast.Store)}
    overridden = {node.attr for node in private_attributes(file) if isinstance(node.value, ast.Call)}
    return (defined | assigned) - overridden


def is_celery(module: str) -> bool:
    return module.partition(".")[0] in ("celery", "kombu", "billiard")
