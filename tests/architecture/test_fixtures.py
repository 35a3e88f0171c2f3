"""How long the fixtures of the tests live."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_pipeline_of_a_folder_ends_with_its_folder() -> None:
    """In a folder that is no package, pytest keeps a fixture of a package until the end of its process."""
    keeping = [
        file.parent
        for file in (ROOT / "tests").rglob("conftest.py")
        if 'scope="package"' in file.read_text("utf-8")
    ]
    assert len(keeping) > 5
    no_packages = {
        parent.relative_to(ROOT).as_posix()
        for folder in keeping
        for parent in (folder, *folder.parents)
        if parent.is_relative_to(ROOT / "tests") and not (parent / "__init__.py").exists()
    }
    assert no_packages == set()
