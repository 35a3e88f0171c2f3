"""Rules as a file of TOML or JSON, what differs between two versions, and changed weights.  Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from models.errors import WrongDeclaration
from models.rules import Rules, read_as, read_rules


class RulesFile(Rules):
    """The rules of a namespace as one file, which `chorale rules get` prints and `put` takes."""

    namespace: str
    version: Annotated[int, Field(ge=0)] | None = Field(
        None, description="The version that the file replaces; without it, the file replaces any version"
    )

    @property
    def rules(self) -> Rules:
        return Rules.model_validate(self.model_dump(exclude={"namespace", "version"}))


def with_weights(rules: Rules, configuration: str, weights: Mapping[str, float] | None) -> Rules:
    """The rules with these weights of a configuration; None: without any.  Raises WrongDeclaration."""
    fields, known = _fields(rules), rules.weights_of(configuration)
    name = known[0] if known else free_name(rules, f"weights {configuration}")
    fields.setdefault("weights", {}).pop(name, None)
    if weights is not None:
        fields["weights"][name] = {"configuration": configuration, "branches": dict(weights)}
    return read_rules(fields)


def with_accepted_proposal(rules: Rules, configuration: str, proposed: str) -> Rules:
    """The rules in which `configuration` has the weights of `proposed`, which has none any more.  Raises WrongDeclaration."""
    if (known := rules.weights_of(proposed)) is None:
        raise WrongDeclaration(f"no weights are proposed for {configuration!r}")
    return with_weights(with_weights(rules, proposed, None), configuration, known[1].branches)


def free_name(rules: Rules, text: str) -> str:
    """A name for a rule about `text` that no rule has yet."""
    name = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "rule"
    used, number = set(rules.names), 2
    free = name
    while free in used:
        free, number = f"{name}-{number}", number + 1
    return free


def difference(before: Rules, after: Rules) -> dict[str, list[str]]:
    """The names of the rules that were `added`, `changed` and `removed`."""
    old, new = _by_name(before), _by_name(after)
    return {
        "added": [name for name in new if name not in old],
        "changed": [name for name in new if name in old and new[name] != old[name]],
        "removed": [name for name in old if name not in new],
    }


def _fields(rules: Rules) -> dict[str, dict[str, Any]]:
    fields: dict[str, dict[str, Any]] = rules.model_dump(mode="json", exclude_defaults=True)
    return fields


def _by_name(rules: Rules) -> dict[str, Any]:
    return {**rules.pin, **rules.block, **rules.synonyms, **rules.weights}


def rules_file(text: str) -> RulesFile:
    """Reads a text of TOML, or of JSON if it begins with `{`.  Raises WrongDeclaration."""
    try:
        content: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongDeclaration(f"rules: neither TOML nor JSON: {error}") from None
    if isinstance(content, dict):
        content.pop("v", None)  # each JSON document of a command has it
    return read_as(RulesFile, content)


def toml_of(file: RulesFile) -> str:
    """A text that `rules_file` reads again."""
    fields = file.model_dump(mode="json", exclude_defaults=True)
    head = [
        f"{name} = {_toml_value(fields.pop(name))}" for name in ("namespace", "version") if name in fields
    ]
    blocks = [
        "\n".join([f"[{kind}.{name}]", *(f"{field} = {_toml_value(value)}" for field, value in rule.items())])
        for kind, by_name in fields.items()
        for name, rule in by_name.items()
    ]
    return "\n\n".join(["\n".join(head), *blocks])


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{json.dumps(key)} = {_toml_value(each)}" for key, each in value.items()) + " }"
        )
    # TOML's strings are JSON's, but for DEL and for characters outside of the first 65,536.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
