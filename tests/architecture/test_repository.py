"""Locks, Makefile, pages and their links."""

from __future__ import annotations

import re
import subprocess
import tomllib
from enum import EnumMeta, StrEnum
from pathlib import Path

import chorale_client.words
import pytest
from chorale_client.words import REASONS

from assembly.kinds import BUILT_IN

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "client").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
WIRE = (ROOT / "docs" / "reference" / "wire.md").read_text(encoding="utf-8")
TASKS = [value for name, value in vars(chorale_client.words).items() if name.startswith("TASK_")]
ENUMS = [
    kind for kind in vars(chorale_client.words).values() if isinstance(kind, EnumMeta) and kind is not StrEnum
]


def pinned(lock: Path) -> dict[str, set[str]]:
    """Returns versions by package; a universal lock may hold one version for each Python."""
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^([a-z0-9._-]+)(?:\[[^]]+\])?==(\S+)", lock.read_text("utf-8"), re.MULTILINE
    ):
        versions.setdefault(name, set()).add(version)
    return versions


def test_there_is_a_lock_for_the_service_the_model_and_every_group() -> None:
    assert {lock.stem for lock in LOCKS} == {"base", "model", *PROJECT["dependency-groups"]}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_package_of_a_lock_has_a_hash_and_no_lock_an_address(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    requirements = re.split(r"\n(?=[a-z])", text)
    assert len(requirements) > 1
    assert [part.partition(" ")[0] for part in requirements[1:] if "--hash=sha256:" not in part] == []
    assert re.findall(r"https?://|--index|--extra-index|--find-links|file:|/tmp|/home", text) == []


def test_all_locks_fit_into_one_environment() -> None:
    together: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, versions in pinned(lock).items():
            assert together.setdefault(name, versions) == versions, (lock.stem, name)


def test_the_demo_s_installation_has_neither_scipy_nor_torch() -> None:
    base = pinned(ROOT / "requirements" / "base.txt")
    assert "celery" in base
    assert not {"scipy", "torch", "pandas", "scikit-learn"} & base.keys()


def test_every_target_of_the_readme_and_of_ci_is_one_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    pages = [*(page.read_text(encoding="utf-8") for page in PAGES), (ROOT / ".ci" / "run").read_text("utf-8")]
    asked = {
        name for text in pages for name in re.findall(r"(?:`|^ {4}|^)make ([a-z][a-z-]*)", text, re.MULTILINE)
    }
    assert {"demo", "test", "check", "torch"} <= asked <= targets


def test_make_without_a_target_lists_the_targets() -> None:
    found = subprocess.run(["make"], cwd=ROOT, check=True, capture_output=True, text=True)
    listed = re.findall(r"^  make (\S+) +\S", found.stdout, re.MULTILINE)
    assert {"install", "demo", "test", "check", "bench", "torch", "mutants", "lock", "clean"} <= set(listed)


def test_an_old_python_is_refused_with_a_sentence(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    found = subprocess.run(
        ["make", ".venv/.python", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode != 0
    assert "Chorale needs Python 3.11 or newer, and" in found.stderr
    assert "is Python 3.9.1" in found.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("script", [".ci/run", "cli/launcher"])
def test_a_script_can_be_run_and_read(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    shell = "bash" if "bash" in path.read_text(encoding="utf-8").splitlines()[0] else "sh"
    subprocess.run([shell, "-n", path], check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [
        link for link in links if not link.startswith("http") and not (page.parent / link).resolve().exists()
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_part_of_a_page_that_a_link_names_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*\.md)#([^)]+)\)", page.read_text(encoding="utf-8"))
    assert [
        (link, part)
        for link, part in links
        if not link.startswith("http")
        and part not in headings((page.parent / link).read_text(encoding="utf-8"))
    ] == []


def headings(page: str) -> set[str]:
    """Returns the headings in the form that links use."""
    found = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_every_word_of_the_wire_is_on_its_page(kind: type[StrEnum]) -> None:
    assert [str(word) for word in kind if f"`{word}`" not in WIRE] == []


def test_the_page_has_the_enums_of_the_client() -> None:
    assert {kind.__name__ for kind in ENUMS} == {
        "Status",
        "EnvelopeStatus",
        "Stage",
        "StageStatus",
        "RerankStage",
        "Reason",
    }


def test_the_page_describes_each_reason_as_the_code_does() -> None:
    def said(claim: bool) -> str:
        return "yes" if claim else "no"

    rows = [
        f"| `{reason}` | {follows.when} | {said(follows.degrades)} | {said(follows.cacheable)} "
        f"| {said(follows.retry_worth_it)} |"
        for reason, follows in REASONS.items()
    ]
    assert [row for row in rows if row not in WIRE.splitlines()] == []


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_on_the_page_of_the_wire(task: str) -> None:
    assert f"\n| `{task.format(kind='<kind>')}` | `chorale." in WIRE


def test_every_kind_of_branch_is_in_the_glossary() -> None:
    (branch,) = (row for row in GLOSSARY.splitlines() if row.startswith("| branch |"))
    assert [kind for kind in BUILT_IN.branches if f"`{kind}`" not in branch] == []


def test_the_licence_is_the_one_that_is_declared() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
