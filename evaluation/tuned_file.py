"""A pipeline file with one more configuration, as TOML that `load_pipeline` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from config.declarations import Configuration, Pipeline
from config.pipeline_reader import DEFAULT_FILE
from models.errors import ServiceError, WrongDeclaration
from models.plan import BoostPlan
from wiring.pipeline import load_pipeline


def check_name(name: str, pipeline: Pipeline) -> None:
    """Raises WrongDeclaration for the name of a configuration that the pipeline has already."""
    if name in pipeline.configurations:
        raise WrongDeclaration(f"--name: the pipeline has a configuration {name!r} already")


def write_tuned(
    configuration: Configuration, remarks: Sequence[str], *, source: Path | None, target: Path
) -> None:
    """Write the pipeline file `source` (None: the embedded one) to `target`, with the configuration after it.

    Raises WrongDeclaration for a name that no configuration can have, and OSError.
    """
    declared = (source or DEFAULT_FILE).read_text(encoding="utf-8-sig").rstrip("\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{declared}\n\n{_toml(configuration, remarks)}", encoding="utf-8")
    if load_pipeline(target).configurations[configuration.name] != configuration:
        raise ServiceError(f"{target}: the configuration {configuration.name!r} is not read as it was chosen")


def _toml(configuration: Configuration, remarks: Sequence[str]) -> str:
    chosen = configuration.model_dump(exclude={"name", "boosts", "reranker"}, exclude_defaults=True)
    chosen = {"method": configuration.method, "k": configuration.k, **chosen}
    lines = [f"# {remark}" for remark in remarks]
    lines.append(f"[configurations.{configuration.name}]")
    lines += [f"{name} = {_value(value)}" for name, value in chosen.items()]
    if configuration.boosts is not None:
        lines.append(f"boosts = {_value(configuration.name)}")
        lines += ["", f"[boosts.{configuration.name}]"]
        lines += [f"{name} = {_value(value)}" for name, value in _boosts(configuration.boosts).items()]
    return "\n".join(lines) + "\n"


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
