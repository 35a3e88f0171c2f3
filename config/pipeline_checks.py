"""What is wrong with the declarations of a pipeline file beyond their types: names that nobody has, and choices that do not fit.

Each function yields mistakes: the path of the key in the file, and a message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from config.declarations import (
    Adaptation,
    BranchDeclaration,
    Choices,
    Configuration,
    Interleaving,
    LivePair,
    Pipeline,
    StoreDeclaration,
    proposed_name,
)
from config.model_declarations import DEFAULT_ENCODER
from models.declarations import cypher
from models.declarations.extensions import Kinds

Mistakes = Iterator[tuple[tuple[str, ...], str]]

_OTHERWISE = (
    "declare such configurations under [shadow], or compare them with `chorale compare` on judged questions"
)


def one_of(name: str, what: str, choices: Collection[str], path: tuple[str, ...]) -> Mistakes:
    if name not in choices:
        yield path, f"no {what} {name[:80]!r}; there are: {listed(choices)}"


def listed(choices: Collection[str]) -> str:
    return ", ".join(sorted(choices)) or "none"


def wrong_store(store: StoreDeclaration, stores: Mapping[str, StoreDeclaration], kinds: Kinds) -> Mistakes:
    """A store that reads another's documents names one that documents are indexed into."""
    option = kinds.stores[store.kind].documents_of if store.kind in kinds.stores else None
    if option is not None and isinstance(named := store.options.get(option), str):
        known = {name: kinds.stores.get(other.kind) for name, other in stores.items()}
        written = [name for name, kind in known.items() if kind is not None and kind.writes]
        yield from one_of(named, "store with documents", written, ("stores", store.name, "options", option))


def wrong_branch(
    branch: BranchDeclaration, store: StoreDeclaration | None, encoders: Collection[str], kinds: Kinds
) -> Mistakes:
    """The branch does not fit its store, or names an encoder that is not there or that it does not need."""
    path = ("branches", branch.name)
    kind = kinds.branches.get(branch.kind)
    if store and kind and kind.searches_http not in (None, store.kind == "http"):
        yield (
            (*path, "kind"),
            f"the store {store.name!r} is of kind {store.kind!r}: only branches of kind 'http' "
            "search stores of kind 'http', and they search no others",
        )
    elif store and kind and (refusal := kinds.refusal(branch.kind, store.kind, store.options)):
        yield (*path, "kind"), refusal
    if store and store.kind in kinds.stores:
        for message in _wrong_cypher(branch, store, kinds):
            yield (*path, "options", "cypher"), message
    if kind and branch.encoder is not None:
        yield from one_of(branch.encoder, "encoder", {DEFAULT_ENCODER, *encoders}, (*path, "encoder"))
        needs = kinds.needs(branch.kind, store.kind, store.options) if store else kind.needs
        if not {"questions", "passages"} & needs:
            of = " for a store without {vector}" if branch.kind == "http" else ""
            yield (*path, "encoder"), f"a branch of kind {branch.kind!r} embeds nothing{of}"


def _wrong_cypher(branch: BranchDeclaration, store: StoreDeclaration, kinds: Kinds) -> Iterator[str]:
    check = kinds.stores[store.kind].check_cypher
    for statement in cypher.statements(branch.options):
        for name in cypher.unknown_parameters(statement):
            known = ", ".join((*cypher.PARAMETERS, f"{cypher.FILTER_PARAMETER}<field>"))
            yield f"no parameter ${name}; there are: {known}"
        if check is None:
            running = [name for name, kind in kinds.stores.items() if kind.check_cypher is not None]
            yield f"a store of kind {store.kind!r} runs no Cypher; there are: {listed(running)}"
        elif (complaint := check(store.options, statement)) is not None:
            yield complaint


def unknown_branches(declared: Choices, branches: Collection[str]) -> Mistakes:
    """What a configuration says of branches that are not there, or that it does not ask."""
    named: list[tuple[str, ...]] = [("weights", branch) for branch in declared.weights or {}]
    for kind, weights in (declared.weights_by_type or {}).items():
        named += [("weights_by_type", kind, branch) for branch in weights]
    named += [("halves", branch) for branch in declared.halves or {}]
    path = ("configurations", declared.name)
    for branch in declared.branches or ():
        yield from one_of(branch, "branch", branches, (*path, "branches"))
    for where in named:
        yield from one_of(where[-1], "branch", declared.branches or branches, (*path, *where))


def wrong_configuration(configuration: Configuration, pipeline: Pipeline) -> Mistakes:
    """All weights are 0, or it cannot adapt."""
    path = ("configurations", configuration.name)
    chosen = pipeline.branches_of(configuration)
    by_type = (configuration.weights_by_type or {}).items()
    weighted: dict[tuple[str, ...], Mapping[str, float]] = {path: {}}
    weighted |= {(*path, "weights_by_type", kind): weights for kind, weights in by_type}
    for where, weights in weighted.items():
        if chosen and not any(weights.get(branch.name, branch.weight) for branch in chosen):
            yield where, "every weight is 0; at least one must be above 0"
    if configuration.adapt is not None:
        for message in _wrong_bounds(configuration.adapt, configuration, pipeline):
            yield (*path, "adapt"), message
        if (name := proposed_name(configuration.name)) in pipeline.configurations:
            why = f"the name of what {configuration.name!r} proposes; choose another"
            yield ("configurations", name), why


def _wrong_bounds(declared: Adaptation, configuration: Configuration, pipeline: Pipeline) -> Iterator[str]:
    """A message for each mistake in the bounds of a configuration that adapts."""
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


def wrong_pair(declared: LivePair, pipeline: Pipeline, path: tuple[str, ...]) -> Mistakes:
    """Its two names, which is all that may be wrong with a shadow, and for interleaving that both rank the same lists, so that one
    search serves both."""
    known = pipeline.configurations
    named = {"a": declared.a, "b": declared.b}
    for field, name in named.items():
        yield from one_of(name, "configuration", known, (*path, field))
    if not known.keys() >= set(named.values()):
        return
    if declared.a == declared.b:
        yield (*path, "b"), "the same configuration as `a`"
        return
    if not isinstance(declared, Interleaving):
        return
    for field, name in named.items():
        if (reranker := known[name].reranker) is not None:
            why = f"{name!r} has the reranker {reranker.name!r}, and a page is drafted after the fusion"
            yield (*path, field), f"{why}; {_OTHERWISE}"
    for more in _needs_more(known[declared.a], known[declared.b], pipeline):
        why = f"{declared.b!r} needs {more} than {declared.a!r}, and no search is made for it"
        yield (*path, "b"), f"{why}; {_OTHERWISE}"


def _needs_more(a: Configuration, b: Configuration, pipeline: Pipeline) -> Iterator[str]:
    """What the lists of A lack for B."""
    searched = {branch.name for branch in pipeline.branches_of(a)}
    others = [branch.name for branch in pipeline.branches_of(b) if branch.name not in searched]
    if others:
        yield f"other branches ({', '.join(others)})"
    if a.rank_window_size is not None and (b.rank_window_size or a.rank_window_size + 1) > a.rank_window_size:
        yield "longer lists (`rank_window_size`)"
