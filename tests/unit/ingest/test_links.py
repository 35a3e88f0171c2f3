"""No symbolic link is followed unless the caller wants it, and then only inside the folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ingest.read
from ingest.parser_process import ParserProcess
from ingest.raw_documents import Skipped
from ingest.read import estimated_documents
from models.not_indexed import NotIndexed
from tests.support.reading import read_all

SECRET = "root:$6$the password"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder beside a secret."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "secrets").mkdir()
    for name in ("key.txt", "one.txt"):
        (tmp_path / "secrets" / name).write_text(SECRET)
    folder = tmp_path / "docs"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.txt").write_text("one")
    (folder / "two.txt").write_text("two")
    return folder


def read(*paths: Path, follows_links: bool = False) -> tuple[dict[str, str], list[Skipped]]:
    """Texts by document id, and what was skipped."""
    documents, skipped = read_all(*paths, follows_links=follows_links)
    return {document.document_id: document.text for document in documents}, skipped


PLAIN = {"s/a/one.txt": "one", "s/two.txt": "two"}


@pytest.mark.parametrize(
    "target", ["../secret.txt", "{outside}/secret.txt", "../secrets", "two.txt", "a", "nowhere", "link.txt"]
)
def test_by_default_a_link_is_reported_and_not_followed(docs: Path, target: str) -> None:
    (docs / "link.txt").symlink_to(target.format(outside=docs.parent))
    texts, (skipped,) = read(docs)
    assert texts == PLAIN
    assert skipped.path == str(docs / "link.txt")
    assert "a link" in skipped.why
    assert (skipped.is_fault, skipped.spares) == (False, None)
    assert estimated_documents([docs]) == 2


@pytest.mark.parametrize("target", ["secret.txt", "secrets"])
def test_a_given_path_that_links_out_of_its_folder_is_a_fault(docs: Path, target: str) -> None:
    """The shell gives such a path for `docs/*`."""
    (docs / "notes.txt").symlink_to(docs.parent / target)
    for follows_links in (False, True):
        texts, (skipped,) = read(docs / "two.txt", docs / "notes.txt", follows_links=follows_links)
        assert texts == {"s/two.txt": "two"}
        assert skipped.is_fault
        assert "a link" in skipped.why


def test_links_above_the_given_path_are_the_caller_s_own(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(docs)
    assert read(tmp_path / "way" / "a")[0] == {"s/one.txt": "one"}


def test_links_inside_the_folder_are_followed_if_the_caller_wants_it(docs: Path) -> None:
    (docs / "b.txt").symlink_to("two.txt")
    (docs / "c").symlink_to(docs / "a")
    (docs / ".hidden").mkdir()
    (docs / ".hidden" / "three.txt").write_text("three")
    (docs / "d").symlink_to(".hidden")
    texts, skipped = read(docs, follows_links=True)
    assert texts == {**PLAIN, "s/b.txt": "two", "s/d/three.txt": "three"}
    assert [(item.path, item.reason) for item in skipped] == [(str(docs / ".hidden"), NotIndexed.HIDDEN)]
    assert estimated_documents([docs], follows_links=True) == 4


@pytest.mark.parametrize(
    "target", ["../secret.txt", "../secrets", "a/../../secret.txt", "hop", "/etc/passwd"]
)
def test_a_link_out_of_the_folder_is_never_followed(docs: Path, target: str) -> None:
    (docs / "a" / "hop").symlink_to("../../secret.txt")
    (docs / "x.txt").symlink_to(f"a/{target}" if target == "hop" else target)
    texts, skipped = read(docs, follows_links=True)
    assert texts == PLAIN
    assert {item.why for item in skipped} == {"a link that leads out of the folder"}
    assert all(item.is_fault for item in skipped)


def test_a_folder_that_links_to_itself_is_walked_once(docs: Path) -> None:
    (docs / "a" / "loop").symlink_to(docs)
    (docs / "a" / "here").symlink_to(".")
    assert read(docs, follows_links=True) == (PLAIN, [])
    # Both links are beside "a", which is read under its own name.
    (docs / "0").symlink_to("a")
    (docs / "z").symlink_to("a")
    assert read(docs, follows_links=True) == (PLAIN, [])


def test_links_into_a_hidden_chain_of_folders_read_each_folder_once(docs: Path) -> None:
    folder = docs / ".deep"
    for level in range(40):
        folder.mkdir()
        (folder / "x.txt").write_text(str(level))
        (docs / f"link{99 - level}").symlink_to(folder)
        folder /= "d"
    texts, skipped = read(docs, follows_links=True)
    assert sorted(texts.values()) == sorted([*PLAIN.values(), *map(str, range(40))])
    assert [item.path for item in skipped] == [str(docs / ".deep")]


def test_a_broken_link_is_reported_where_links_are_followed(docs: Path) -> None:
    (docs / "broken.txt").symlink_to(docs / "nowhere")
    (docs / "loop.txt").symlink_to(docs / "loop.txt")
    _, skipped = read(docs, follows_links=True)
    assert [(item.is_fault, item.spares) for item in skipped] == [
        (True, "s/broken.txt"),
        (True, "s/loop.txt"),
    ]


@contextmanager
def swapped_when_opened(
    monkeypatch: pytest.MonkeyPatch, path: Path, make: Callable[[Path], None]
) -> Iterator[None]:
    """`make` puts something else in the place of `path`, after everything was checked and before `path` is opened."""
    real, waiting = os.open, [make]

    def opened(name: str, flags: int, *args: int, **options: int) -> int:
        if name == path.name and waiting:
            path.rename(path.parents[1] / "away")
            waiting.pop()(path)
        return real(name, flags, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        yield
    assert not waiting


@pytest.mark.parametrize("follows_links", [False, True])
def test_a_file_that_becomes_a_link_before_it_is_opened_is_not_read(
    docs: Path, monkeypatch: pytest.MonkeyPatch, follows_links: bool
) -> None:
    with swapped_when_opened(monkeypatch, docs / "two.txt", lambda file: file.symlink_to("../secret.txt")):
        texts, (skipped,) = read(docs, follows_links=follows_links)
    assert texts == {"s/a/one.txt": "one"}
    assert skipped.is_fault


@pytest.mark.parametrize("follows_links", [False, True])
def test_a_folder_on_the_way_that_becomes_a_link_is_not_passed(
    docs: Path, monkeypatch: pytest.MonkeyPatch, follows_links: bool
) -> None:
    with swapped_when_opened(monkeypatch, docs / "a", lambda folder: folder.symlink_to("../secrets")):
        texts, skipped = read(docs, follows_links=follows_links)
    assert texts == {"s/two.txt": "two"}
    assert [item.is_fault for item in skipped] == [True]


def test_a_file_that_becomes_a_pipe_before_it_is_opened_is_not_waited_for(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with swapped_when_opened(monkeypatch, docs / "two.txt", os.mkfifo):
        _, (skipped,) = read(docs)
    assert skipped.why == "neither a file nor a folder"


def test_no_descriptor_is_left_open(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest.read, "ParserProcess", ParserProcess)
    (docs / "notes.txt").symlink_to("../secret.txt")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for follows_links in (False, True):
        read(docs, docs / "two.txt", docs / "notes.txt", follows_links=follows_links)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
