"""Each file in a folder of kinds or methods declares one, of the class that packages from outside use too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from assembly.kinds import BUILT_IN
from inference.language_models import prompts
from models.extensions import BranchKind, StoreKind
from models.fusion_method import Method

ROOT = Path(__file__).parents[2]


def test_each_file_of_a_folder_of_kinds_declares_one() -> None:
    tables: list[tuple[str, Mapping[str, object], type]] = [
        ("branches/kinds", BUILT_IN.branches, BranchKind),
        ("search/kinds", BUILT_IN.stores, StoreKind),
        ("fusion/*", BUILT_IN.methods, Method),
    ]
    for folders, table, kind in tables:
        files = {file.stem.replace("_", "-") for file in ROOT.glob(f"{folders}/*.py")} - {"--init--"}
        assert {name.replace("_", "-") for name in table} == files
        assert {type(one) for one in table.values()} == {kind}


def test_the_tables_import_no_module_that_only_a_search_needs() -> None:
    """Commands read the tables, and each of these modules takes 0.1 to 0.8 s to import."""
    heavy = {"numpy", "tantivy", "onnxruntime", "sqlalchemy", "elasticsearch", "weaviate", "httpx", "openai"}
    program = f"import sys, assembly.pipeline; print(*{heavy!r} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_every_prompt_that_can_be_declared_has_one_place_for_the_question() -> None:
    assert all(prompt.count(prompts.PLACE) == 1 for prompt in prompts.HYPOTHESIS_PROMPTS.values())
