"""The language models of branches: asks each endpoint for one short text, without any cache.

Also checks that the configurations leave the models enough time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from chorale_client.wire_names import Reason

from cli.doctor.finding import Finding
from cli.installation import Installation
from models.errors import StageFailure

if TYPE_CHECKING:
    from branches.generators import Endpoint

PROMPT = "Say yes."
_MENDS = {
    Reason.NOT_CONFIGURED: "give it what it names, to the workers too, and restart them",
    Reason.UNAUTHORISED: "give the workers the right key and restart them: until then nothing is written for these branches",
    Reason.UNAVAILABLE: "start that server, or correct the branch's url in the pipeline",
    Reason.TIMEOUT: "find out why that server is slow, or raise the branch's limit_s",
}


def have_time(installation: Installation) -> Iterator[Finding]:
    """Find configurations without timeout_s whose default time is too short for a branch's language model."""
    from chorale_client.request import Request

    from branches.generation import SEARCH_RESERVE_S
    from tasks.request.planning import reserves_ms

    generators = installation.resources.generators
    request_s: float = Request.model_fields["timeout_s"].default
    for configuration in installation.pipeline.configurations.values():
        if configuration.timeout_s is not None:
            continue
        budget_ms = configuration.reranker.budget_ms if configuration.reranker else 0
        most_s = request_s - reserves_ms(request_s, budget_ms)[1] / 1000 - SEARCH_RESERVE_S
        for branch in installation.pipeline.branches_of(configuration):
            options = generators.options(branch.name)
            if options is not None and options.asks_a_model and options.limit_s > most_s:
                yield Finding(
                    f"configuration {configuration.name!r} has no timeout_s: of the {request_s:g} s of a request that "
                    f"gives none the language model of {branch.name} has at most {most_s:.1f} s, not its limit_s of "
                    f"{options.limit_s:g} s",
                    f"declare timeout_s in [configurations.{configuration.name}], above that limit_s",
                )


def answer(installation: Installation) -> Iterator[Finding]:
    generators = installation.resources.generators
    endpoints: dict[tuple[object, ...], tuple[Endpoint, list[str]]] = {}
    for branch in installation.pipeline.branches:
        options = generators.options(branch.name)
        if options is not None and options.asks_a_model:
            # The generator of a package has an endpoint of its own.
            key = (branch.name,) if options.is_foreign else (options.url, options.model, options.api_key_env)
            endpoints.setdefault(key, (options, []))[1].append(branch.name)
    for options, branches in endpoints.values():
        try:
            _ask(options)
        except StageFailure as failure:
            yield Finding(
                f"the language model of {', '.join(branches)} ({failure.reason}): {failure.detail}",
                _MENDS.get(failure.reason, "correct the branch's declaration in the pipeline"),
            )


def _ask(options: Endpoint) -> None:
    """Ask the endpoint; raises the StageFailure that the branch of a request would have."""
    from branches.hyde import HydeOptions, open_generator

    said: object
    if isinstance(options, HydeOptions) and options.is_foreign:
        (said,) = open_generator(options).imagine([PROMPT], timeout_s=options.limit_s)
    else:
        with closing(options.open_chat()) as chat:
            (said,) = chat.complete([PROMPT], timeout_s=options.limit_s)
    if isinstance(said, StageFailure):
        raise said
