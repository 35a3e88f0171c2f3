"""Which two configurations may be interleaved: those that rank the same lists, so that one search serves both.  Others may be
compared by a shadow, which searches once more."""

from __future__ import annotations

from collections.abc import Iterator

from config.declarations import Configuration, Interleaving, LivePair, Pipeline

_OTHERWISE = (
    "declare such configurations under [shadow], or compare them with `chorale compare` on judged questions"
)


def wrong_names(declared: LivePair, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Field and message of each mistake in the names, which is all that may be wrong with a shadow."""
    known = pipeline.configurations
    named = {"a": declared.a, "b": declared.b}
    unknown = {field: name for field, name in named.items() if name not in known}
    for field, name in unknown.items():
        yield field, f"no configuration {name[:80]!r}; there are: {', '.join(sorted(known))}"
    if not unknown and declared.a == declared.b:
        yield "b", "the same configuration as `a`"


def wrong_fields(declared: Interleaving, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Field and message of each mistake."""
    if wrong := [*wrong_names(declared, pipeline)]:
        yield from wrong
        return
    known = pipeline.configurations
    for field, name in {"a": declared.a, "b": declared.b}.items():
        if (reranker := known[name].reranker) is not None:
            why = f"{name!r} has the reranker {reranker.name!r}, and a page is drafted after the fusion"
            yield field, f"{why}; {_OTHERWISE}"
    for more in _needs_more(known[declared.a], known[declared.b], pipeline):
        yield (
            "b",
            f"{declared.b!r} needs {more} than {declared.a!r}, and no search is made for it; {_OTHERWISE}",
        )


def _needs_more(a: Configuration, b: Configuration, pipeline: Pipeline) -> Iterator[str]:
    """What the lists of A lack for B."""
    searched = {branch.name for branch in pipeline.branches_of(a)}
    others = [branch.name for branch in pipeline.branches_of(b) if branch.name not in searched]
    if others:
        yield f"other branches ({', '.join(others)})"
    if a.rank_window_size is not None and (b.rank_window_size or a.rank_window_size + 1) > a.rank_window_size:
        yield "longer lists (`rank_window_size`)"
