"""The pipeline declaration: stores, branches and named configurations, read from TOML.

`config/pipeline.toml` is the embedded default and the example to copy.  A wrong declaration stops the start
with every complaint at once, each as `file:line: what: why; there are: the choices`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from config.declarations import BranchDeclaration, Configuration, Pipeline, StoreDeclaration
from config.pipeline_reader import DEFAULT_FILE, Options, PipelineReader
from models.errors import WrongDeclaration

__all__ = [
    "BRANCH_KINDS",
    "DEFAULT_FILE",
    "METHODS",
    "STORE_KINDS",
    "BranchDeclaration",
    "Configuration",
    "Pipeline",
    "StoreDeclaration",
    "load_pipeline",
]

STORE_KINDS: Mapping[str, Options] = {"embedded": {}}
BRANCH_KINDS: Mapping[str, Options] = {"bm25": {}, "vector": {}, "hyde": {"generator": ("feedback",)}}
METHODS = ("rrf", "rrf-grouped")


def load_pipeline(
    path: Path | None = None,
    *,
    store_kinds: Mapping[str, Options] = STORE_KINDS,
    branch_kinds: Mapping[str, Options] = BRANCH_KINDS,
    methods: Collection[str] = METHODS,
) -> Pipeline:
    """Read the declaration at `path`, or the embedded default; raises WrongDeclaration."""
    file = path or DEFAULT_FILE
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongDeclaration(f"{file}: the pipeline file cannot be read: {error}") from error
    reader = PipelineReader(file, text)
    pipeline = reader.read(store_kinds, branch_kinds, methods)
    if pipeline is None or reader.complaints:
        raise WrongDeclaration("\n".join(complaint for _, complaint in sorted(reader.complaints)))
    return pipeline
