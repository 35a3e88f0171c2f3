"""Writes docs/reference/settings.md from the settings class: `python -m docs.reference.settings`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from config.settings import PREFIX, Settings

PAGE = Path(__file__).with_suffix(".md")

_HEAD = f"""# Settings

Written from `config/settings.py` by `python -m docs.reference.settings`; a test fails while the two differ.

Every setting is an environment variable `{PREFIX}<NAME>`, read once when a process starts. An empty variable counts as
not set. With a wrong value the process does not start; the error names the variable, the fault and the allowed values.
The pipeline file declares what is searched and how it is ranked: see `config/pipeline.toml`.

| variable | default | allowed | meaning |
|---|---|---|---|
"""

_COMPUTED = {
    "home": "`$XDG_DATA_HOME/chorale`, else `~/.local/share/chorale`",
    "model_threads": "the machine's cores",
}
"""Defaults that depend on the machine."""

_TYPES: dict[Any, str] = {
    bool: "`true`, `false`",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def settings_page() -> str:
    """The whole page as Markdown."""
    return _HEAD + "".join(_rows())


def _rows() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        meaning = " ".join((field.description or "").split())
        cells = (f"`{PREFIX}{name.upper()}`", _default(name, field), _allowed(field), meaning)
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name in _COMPUTED:
        return _COMPUTED[name]
    value = field.get_default(call_default_factory=True, validated_data={})
    if value in (None, {}, ()):
        return "not set"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(field: FieldInfo) -> str:
    kinds = [kind for kind in _members(field.annotation) if kind is not NoneType]
    words = [_words(kind) for kind in kinds]
    bounds = [
        f"{sign} {getattr(constraint, bound)}"
        for constraint in field.metadata
        for bound, sign in _BOUNDS.items()
        if hasattr(constraint, bound)
    ]
    return " ".join([" or ".join(words), ", ".join(bounds)]).strip()


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    if get_origin(kind) is dict:
        return "`queue=count,…`"
    if get_origin(kind) is tuple:
        return "`name,…`"
    return _TYPES[kind]


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
