"""Writes docs/reference/settings.md from the settings class: `python -m docs.reference.settings`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from config.settings import PREFIX, Settings

PAGE = Path(__file__).with_suffix(".md")

_HEAD = """# Settings

`python -m docs.reference.settings` writes this page from `config/settings.py`.

A setting is an environment variable, which a process reads when it starts; `home` below is `CHORALE_HOME`. An empty variable counts as
not set. With a wrong value the process does not start. The pipeline file (`config/pipeline.toml`) declares what is searched and ranked.

| variable | default | allowed | meaning |
|---|---|---|---|
"""

_COMPUTED = {
    "home": "`$XDG_DATA_HOME/chorale`, else `~/.local/share/chorale`",
    "model_threads": "the machine's cores",
}
"""Defaults that depend on the machine."""
_NOT_SET = " Not set: "
"""Begins the last sentence of a description, which says what holds without the setting."""

_TYPES: dict[Any, str] = {
    bool: "boolean",
    int: "",
    float: "",
    str: "text",
    Path: "path",
}
_BOUNDS = ("ge", "gt", "le")


def settings_page() -> str:
    """The whole page as Markdown."""
    return _HEAD + "".join(_rows())


def _descriptions() -> dict[str, str]:
    """The text under each setting by the setting's name.  Pydantic could read the texts, but would take 50 ms in every process."""
    (class_,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(class_, ast.ClassDef)
    descriptions = dict[str, str]()
    for pair in pairwise(class_.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                descriptions[name] = " ".join(text.split())
    return descriptions


def _rows() -> Iterator[str]:
    descriptions = _descriptions()
    for name, field in Settings.model_fields.items():
        description = descriptions[name]
        meaning, _, unset = description.partition(_NOT_SET)
        default = unset.removesuffix(".") or _default(name, field)
        cells = (f"`{PREFIX}{name.upper()}`", default, _allowed(field), meaning)
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name in _COMPUTED:
        return _COMPUTED[name]
    value = field.get_default(call_default_factory=True, validated_data={})
    if value in (None, {}, ()):
        return "not set"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(field: FieldInfo) -> str:
    """The values that a setting may have, such as "0.5–1" or "boolean"."""
    kinds = [kind for kind in _members(field.annotation) if kind is not NoneType]
    words = " or ".join(_words(kind) for kind in kinds)
    bounds = {
        bound: getattr(one, bound) for one in field.metadata for bound in _BOUNDS if hasattr(one, bound)
    }
    if not bounds:
        return words
    if "gt" in bounds:
        return f"over {bounds['gt']}, to {bounds['le']}"
    return f"{bounds['ge']}–{bounds['le']}"


def _members(annotation: Any) -> list[Any]:
    # `Annotated[...] | None` is a Union, `str | None` a UnionType.
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return [get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in members]


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is dict:
        return "`name=address,…`" if get_args(kind)[1] is str else "`queue=count,…`"
    if get_origin(kind) is tuple:
        return "`name,…`"
    return _TYPES[kind]


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
