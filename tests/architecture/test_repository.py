"""Locks, Makefile, pages and their links."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from enum import StrEnum
from pathlib import Path

import chorale_client.wire_names
import pytest
from chorale_client.wire_names import REASONS, WARNINGS, Warned

from tasks.wiring.pipeline import BUILT_IN
from tests.architecture.test_supported_systems import PYTHONS

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
TASKS = [value for name, value in vars(chorale_client.wire_names).items() if name.startswith("TASK_")]
ENUMS = [
    kind
    for kind in vars(chorale_client.wire_names).values()
    if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
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


def test_every_package_of_a_lock_has_a_hash_and_no_lock_an_address() -> None:
    for lock in LOCKS:
        text = lock.read_text(encoding="utf-8")
        _, *requirements = re.split(r"\n(?=[a-z])", text)
        assert requirements
        assert [one.partition(" ")[0] for one in requirements if "--hash=sha256:" not in one] == []
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
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    pages = [*(page.read_text(encoding="utf-8") for page in PAGES), (ROOT / ".ci" / "run").read_text("utf-8")]
    named = {
        name
        for text in pages
        for name in re.findall(r"(?:`|^ {4}|^)make ([a-z][a-z0-9-]*)", text, re.MULTILINE)
    }
    assert {"demo", "test", "check", "torch"} <= named <= targets


@pytest.mark.parametrize(
    ("version", "is_supported"), [("3.9", False), ("3.15", False), (PYTHONS[0], True), (PYTHONS[-1], True)]
)
def test_a_python_is_supported_or_refused_by_its_name(
    tmp_path: Path, version: str, is_supported: bool
) -> None:
    """The interpreter is this one, which calls itself another version."""
    python = tmp_path / "python"
    info = f"import sys; sys.version_info = ({version.replace('.', ', ')}, 1); exec(sys.argv[1])"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "Python {version}.1" && exit 0\n'
        f'[ "$1" = -m ] && mkdir .venv && exit 0\nexec {sys.executable} -c "{info}" "$2"\n'
    )
    python.chmod(0o755)
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    done = subprocess.run(
        ["make", ".venv/.python", f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode == 0, (tmp_path / ".venv").exists()) == (is_supported, is_supported), done.stderr
    refusal = f"Chorale runs on Python {' '.join(PYTHONS)}, and {python} is Python {version}.1: name one"
    assert (refusal in done.stderr) is not is_supported


def dry_run(folder: Path, target: str, **variables: str) -> str:
    """What `make` would do for this target in a clone where nothing is installed."""
    for name in ("Makefile", "requirements", "client"):
        (folder / name).symlink_to(ROOT / name)
    call, environment = ["make", "--dry-run", target], os.environ | variables
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_wheels_are_built_with_setuptools_alone(tmp_path: Path) -> None:
    said = dry_run(tmp_path, "wheels")
    assert re.findall(r" -r (\S+)", said) == ["requirements/uv.txt", ".venv/setuptools.txt"]


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_an_installation_asks_the_package_index_of_its_environment(tmp_path: Path, name: str) -> None:
    said = dry_run(tmp_path, "install", **{name: "https://mirror.example/simple"})
    installs = [line for line in said.splitlines() if "uv pip install" in line]
    assert len(installs) == 2
    assert all("--default-index 'https://mirror.example/simple'" in line for line in installs)
    assert ("PIP_INDEX_URL='https://mirror.example/simple'" in said) is (name == "UV_DEFAULT_INDEX")


def test_every_link_of_a_page_leads_to_a_file_and_to_a_part_that_exist() -> None:
    broken = []
    for page in PAGES:
        for link, part in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            file = (page.parent / link).resolve() if link else page
            if link.startswith("http"):
                continue
            if not file.exists() or (
                part and file.suffix == ".md" and part not in headings(file.read_text(encoding="utf-8"))
            ):
                broken.append((page.name, link, part))
    assert broken == []


def headings(page: str) -> set[str]:
    """Returns the headings in the form that links use."""
    titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in titles}


def test_every_task_and_every_word_of_the_wire_is_on_its_page() -> None:
    assert len(ENUMS) == 7
    assert [str(word) for kind in ENUMS for word in kind if f"`{word}`" not in WIRE] == []
    tasks = [task.format(kind="<kind>") for task in TASKS]
    assert [task for task in tasks if f"\n| `{task}` | `chorale." not in WIRE] == []


def test_the_page_describes_each_reason_as_the_code_does() -> None:
    def yes_or_no(claim: bool) -> str:
        return "yes" if claim else "no"

    rows = [
        f"| `{reason}` | {follows.when} | {yes_or_no(follows.is_retryable)} |"
        for reason, follows in REASONS.items()
    ]
    assert [row for row in rows if row not in WIRE.splitlines()] == []
    (harmless,) = re.findall(
        r"^All but (.+) degrade the answer and keep it out of the cache\.$", WIRE, re.MULTILINE
    )
    for degrades in (True, False):
        reasons = {reason for reason, follows in REASONS.items() if follows.degrades is degrades}
        assert reasons == {reason for reason in REASONS if (f"`{reason}`" not in harmless) is degrades}
        assert {REASONS[reason].cacheable for reason in reasons} == {not degrades}


def test_the_page_has_each_word_that_a_warning_begins_with_and_its_meaning() -> None:
    assert list(WARNINGS) == list(Warned)
    rows = [f"| `{word}` | {meaning} |" for word, meaning in WARNINGS.items()]
    assert [row for row in rows if row not in WIRE.splitlines()] == []


def test_every_kind_of_branch_is_in_the_glossary() -> None:
    (branch,) = (row for row in GLOSSARY.splitlines() if row.startswith("| branch |"))
    assert [kind for kind in BUILT_IN.branches if f"`{kind}`" not in branch] == []
