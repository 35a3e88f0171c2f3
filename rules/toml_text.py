"""Rules as a file: TOML, or JSON."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from models.errors import WrongDeclaration
from models.rules import Rules, read_rules


def rules_from(text: str) -> Rules:
    """The rules in a text of TOML, or of JSON if it begins with `{`.  Raises WrongDeclaration."""
    try:
        given: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongDeclaration(f"rules: neither TOML nor JSON: {error}") from None
    return read_rules(given)


def toml_of(rules: Rules) -> str:
    """A text that `rules_from` reads again."""
    tables = rules.model_dump(mode="json", exclude_defaults=True)
    blocks = [
        "\n".join([f"[{kind}.{name}]", *(f"{field} = {_value(value)}" for field, value in rule.items())])
        for kind, by_name in tables.items()
        for name, rule in by_name.items()
    ]
    return "\n\n".join(blocks)


def _value(value: Any) -> str:
    # TOML's strings are JSON's, but for DEL and for characters outside of the first 65,536.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
