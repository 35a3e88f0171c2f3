"""The pipelines of `chorale bench latency` differ in their stores alone."""

from __future__ import annotations

from assembly.pipeline import load_pipeline
from bench.no_op import KINDS, PIPELINE_FILE


def test_the_clustered_pipeline_has_the_branches_and_configurations_of_the_embedded_one() -> None:
    embedded, clustered = (
        load_pipeline(file, KINDS)
        for file in (PIPELINE_FILE, PIPELINE_FILE.with_name("latency_clustered.toml"))
    )
    assert [store.kind for store in clustered.stores.values()] == ["elasticsearch", "weaviate"]
    assert clustered.configurations == embedded.configurations
    shared = {"store", "options"}
    assert [one.model_dump(exclude=shared) for one in clustered.branches] == [
        one.model_dump(exclude=shared) for one in embedded.branches
    ]
