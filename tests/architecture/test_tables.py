"""The pipeline file may name what there is, and nothing else: its tables are those of the code."""

from __future__ import annotations

from config.pipeline import BRANCH_KINDS, METHODS, STORE_KINDS


def test_every_branch_kind_that_can_be_declared_has_its_search() -> None:
    from tasks.request.search import KINDS

    assert set(BRANCH_KINDS) == set(KINDS)


def test_every_store_kind_that_can_be_declared_can_be_opened() -> None:
    from assembly.resources import STORES

    assert set(STORE_KINDS) == set(STORES)


def test_every_method_that_can_be_declared_can_fuse() -> None:
    from fusion import methods

    assert set(METHODS) == set(methods.METHODS)


def test_every_prompt_that_can_be_declared_is_there() -> None:
    from config import generators
    from inference import prompts

    assert set(generators.HYPOTHESIS_PROMPTS) == set(prompts.HYPOTHESIS_PROMPTS)
    assert all(prompt.count(prompts.PLACE) == 1 for prompt in prompts.HYPOTHESIS_PROMPTS.values())
