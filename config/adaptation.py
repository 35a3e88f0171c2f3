"""Which bounds the weights of a configuration that adapts may have."""

from __future__ import annotations

from collections.abc import Iterator

from config.declarations import Configuration, Pipeline


def wrong_bounds(configuration: Configuration, pipeline: Pipeline) -> Iterator[str]:
    """A message for each mistake."""
    if (declared := configuration.adapt) is None:
        return
    if configuration.complete_scores or configuration.reranker is not None:
        field = "complete_scores" if configuration.complete_scores else "reranker"
        yield f"a configuration with `{field}` does not adapt: recorded lists do not say how it would rank"
    branches = [branch.name for branch in pipeline.branches_of(configuration)]
    for name, (low, high) in declared.bounds.items():
        if name not in branches:
            yield f"bounds: no branch {name[:80]!r}; there are: {', '.join(branches)}"
        if low > high:
            yield f"bounds: {name}: {low:g} is more than {high:g}"
    if any(branch.weight for branch in pipeline.branches_of(configuration)):
        for message in declared.outside(pipeline.shares_of(configuration)):
            yield f"bounds: {message}; declare `weights` within them"
