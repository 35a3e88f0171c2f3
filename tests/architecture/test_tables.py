"""The tables of kinds and methods have everything that is declared, of the classes that packages from outside use too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from fusion import methods, presets
from inference.endpoints import language_models
from models.declarations.extensions import BranchKind
from models.declarations.fusion_method import Method
from tasks.branches import hyde, searches
from tasks.wiring.pipeline import BUILT_IN
from tests.support.new_process import imported

ROOT = Path(__file__).parents[2]


def test_the_tables_have_every_declared_kind_and_method() -> None:
    tables: list[tuple[list[ModuleType], Mapping[str, object], type]] = [
        ([searches, hyde], BUILT_IN.branches, BranchKind),
        ([methods, presets], BUILT_IN.methods, Method),
    ]
    for modules, table, kind in tables:
        declared = [value for module in modules for value in vars(module).values() if isinstance(value, kind)]
        # A preset is made of a method, which its module imports.
        assert {id(value) for value in declared} == {id(value) for value in table.values()}


def test_the_tables_import_no_module_that_only_a_search_needs() -> None:
    """Commands read the tables, and each of these modules takes 0.1 to 0.8 s to import."""
    engines = "tantivy elasticsearch opensearchpy weaviate kglite neo4j pymongo"
    heavy = f"numpy onnxruntime sqlalchemy httpx httpx2 {engines}"
    assert imported("import tasks.wiring.pipeline", heavy) == []


def test_every_prompt_that_can_be_declared_has_one_place_for_the_question() -> None:
    assert all(
        prompt.count(language_models.QUESTION_PLACE) == 1
        for prompt in language_models.HYPOTHESIS_PROMPTS.values()
    )
