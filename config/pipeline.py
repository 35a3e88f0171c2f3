"""The pipeline declaration: stores, branches and named configurations, read from TOML.

`config/pipeline.toml` is the embedded default and the example to copy.  A wrong declaration stops the start
with every complaint at once, each as `file:line: what: why; there are: the choices`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from config.declarations import BranchDeclaration, Configuration, Pipeline, StoreDeclaration
from config.embedded import EmbeddedOptions
from config.generators import ExpansionOptions, HydeOptions
from config.hybrid import HybridOptions
from config.listing import ListingOptions
from config.pipeline_reader import DEFAULT_FILE, Options, PipelineReader
from models.elasticsearch_endpoint import ElasticsearchEndpoint
from models.errors import WrongDeclaration
from models.http_endpoint import HttpEndpoint
from models.weaviate_endpoint import WeaviateEndpoint

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

STORE_KINDS: Mapping[str, Options] = {
    "embedded": EmbeddedOptions,
    "elasticsearch": ElasticsearchEndpoint,
    "http": HttpEndpoint,
    "weaviate": WeaviateEndpoint,
}
BRANCH_KINDS: Mapping[str, Options] = {
    "bm25": ExpansionOptions,
    "vector": ExpansionOptions,
    "hyde": HydeOptions,
    "hybrid": HybridOptions,
    "document": ListingOptions,
    "http": {},
}
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
