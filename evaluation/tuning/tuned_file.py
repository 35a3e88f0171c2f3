"""A pipeline file with one more configuration, as TOML or YAML that `load_pipeline` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from config.declaration_file import is_yaml, read_table
from config.declarations import Configuration, Pipeline
from config.pipeline_reader import DEFAULT_FILE
from models.boost_plan import BoostPlan
from models.errors import ServiceError, WrongDeclaration
from tasks.wiring.pipeline import load_pipeline


def check_name(name: str, pipeline: Pipeline) -> None:
    """Raises WrongDeclaration for the name of a configuration that the pipeline has already."""
    if name in pipeline.configurations:
        raise WrongDeclaration(f"--name: the pipeline has a configuration {name!r} already")


def write_tuned(
    configuration: Configuration, remarks: Sequence[str], *, source: Path | None, target: Path
) -> None:
    """Write the pipeline file `source` (None: the embedded one) to `target`, with the configuration after it.

    A target of YAML has no comments of its source.  Raises WrongDeclaration for a name that no configuration can have and for a
    target of TOML whose source is YAML, and OSError.
    """
    file = source or DEFAULT_FILE
    declared = file.read_text(encoding="utf-8-sig")
    if is_yaml(target):
        table = read_table(file, declared)
        for kind, tables in _tables(configuration).items():
            table[kind] = {**table.get(kind, {}), **tables}
        text = _remarked(remarks) + yaml.safe_dump(table, sort_keys=False, allow_unicode=True)
    elif is_yaml(file):
        raise WrongDeclaration(
            f"{target}: the pipeline file is YAML, so the new file's name ends in .yaml or .yml"
        )
    else:
        text = f"{declared.rstrip(chr(10))}\n\n{_remarked(remarks)}{_toml(configuration)}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    if load_pipeline(target).configurations[configuration.name] != configuration:
        raise ServiceError(f"{target}: the configuration {configuration.name!r} is not read as it was chosen")


def configuration_block(configuration: Configuration, remarks: Sequence[str], source: Path | None) -> str:
    """What to add to the pipeline file `source` (None: to a copy of the embedded one), in its language."""
    if source is None or not is_yaml(source):
        return _remarked(remarks) + _toml(configuration)
    tables = _tables(configuration)
    return _remarked(remarks) + yaml.safe_dump(tables, sort_keys=False, allow_unicode=True)


def _remarked(remarks: Sequence[str]) -> str:
    return "".join(f"# {remark}\n" for remark in remarks)


def _tables(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """The tables to add, by their kind."""
    name = configuration.name
    chosen = configuration.model_dump(
        mode="json", exclude={"name", "boosts", "reranker"}, exclude_defaults=True
    )
    chosen = {"method": configuration.method, "k": configuration.k, **chosen}
    if configuration.reranker is not None:
        chosen["reranker"] = configuration.reranker.name
    if configuration.boosts is None:
        return {"configurations": {name: chosen}}
    chosen["boosts"] = name
    return {"configurations": {name: chosen}, "boosts": {name: _boosts(configuration.boosts)}}


def _toml(configuration: Configuration) -> str:
    tables = [
        "\n".join([f"[{kind}.{name}]", *(f"{field} = {_value(value)}" for field, value in table.items())])
        for kind, named in _tables(configuration).items()
        for name, table in named.items()
    ]
    return "\n\n".join(tables) + "\n"


def _boosts(boosts: BoostPlan) -> dict[str, Any]:
    fields = boosts.model_dump(exclude_defaults=True)
    # TOML has no null.
    return fields if boosts.max_places is not None else {**fields, "max_places": 5, "unbounded": True}


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON's texts, numbers and booleans are TOML's, apart from DEL.
    return json.dumps(value).replace("\x7f", "\\u007f")
