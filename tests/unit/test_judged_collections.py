"""Where the judged collections are: skipped where nobody says, wrong in CI where what is said is not so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.stores.judged_collections import VARIABLE, judged_collection


def test_a_zip_is_unpacked_and_a_folder_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given" / "facts").mkdir(parents=True)
    (tmp_path / "given" / "facts" / "corpus.jsonl").write_text("{}")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "given"))
    assert judged_collection("facts", tmp_path / "into") == tmp_path / "given" / "facts"
    shutil.make_archive(str(tmp_path / "given" / "packed"), "zip", tmp_path / "given" / "facts")
    found = judged_collection("packed", tmp_path / "into")
    assert (found / "corpus.jsonl").read_text() == "{}"


def test_nobody_says_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.skip.Exception, match=VARIABLE):
        judged_collection("facts", tmp_path)


def test_a_folder_without_the_collection_fails_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"neither facts/ nor facts\.zip"):
        judged_collection("facts", tmp_path)
