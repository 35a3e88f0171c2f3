"""Near-duplicates: signatures that estimate similarity, groups that do not chain, state between runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ingest.minhash import PERMUTATIONS, Signature, signature, similarity
from ingest.near_duplicates import NearDuplicates


def words(first: int, last: int) -> str:
    return " ".join(f"word{n}" for n in range(first, last))


def signed(text: str) -> Signature:
    own = signature(text)
    assert own is not None
    return own


@pytest.mark.parametrize("shift", [0, 5, 20, 50, 100])
def test_signatures_estimate_the_share_of_common_shingles(shift: int) -> None:
    # Texts of 200 words have 196 shingles each, and these share 196 - shift of them.
    expected = (196 - shift) / (196 + shift)
    estimated = similarity(signed(words(0, 200)), signed(words(shift, 200 + shift)))
    assert estimated == pytest.approx(expected, abs=4 * (expected * (1 - expected) / PERMUTATIONS) ** 0.5)


def test_texts_without_anything_in_common_do_not_agree() -> None:
    assert similarity(signed(words(0, 300)), signed(words(1000, 1300))) <= 0.03


def test_a_signature_does_not_depend_on_the_size_of_its_blocks() -> None:
    # 10,000 shingles are three blocks; the lowest over all is the lowest of the parts.
    whole = signed(words(0, 10_004))
    parts = [signed(words(start, start + 2504)) for start in range(0, 10_000, 2500)]
    assert np.array_equal(whole, np.minimum.reduce(parts))


def test_signatures_are_equal_in_every_process() -> None:
    program = "from ingest.minhash import signature; print(signature(' '.join(map(str, range(50)))).tolist())"
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert answers == {f"{signed(' '.join(map(str, range(50)))).tolist()}\n"}


def test_a_near_duplicate_joins_the_group_of_the_first() -> None:
    groups = NearDuplicates()
    assert groups.assign("a", words(0, 200)) is None
    assert groups.assign("b", words(0, 199) + " changed") == "a"
    assert groups.assign("c", words(500, 700)) is None
    assert groups.assign("copy", words(0, 200).upper()) == "a"


def test_groups_do_not_chain() -> None:
    # Similarities: a-b and b-c 180/212 = .85, a-c 164/228 = .72.
    groups = NearDuplicates(threshold=0.78)
    assert groups.assign("a", words(0, 200)) is None
    assert groups.assign("b", words(16, 216)) == "a"
    assert groups.assign("c", words(32, 232)) is None


def test_short_texts_are_never_near_duplicates() -> None:
    groups = NearDuplicates()
    assert groups.assign("a", words(0, 19)) is groups.assign("b", words(0, 19)) is None
    assert groups.assign("c", words(0, 20)) is None
    assert groups.assign("d", words(0, 20)) == "c"


def test_to_assign_again_changes_nothing() -> None:
    groups = NearDuplicates()
    texts = {"a": words(0, 200), "b": words(1, 200), "c": words(300, 500)}
    first = {name: groups.assign(name, text) for name, text in texts.items()}
    assert {name: groups.assign(name, text) for name, text in texts.items()} == first


def test_a_group_outlives_the_document_that_began_it() -> None:
    groups = NearDuplicates()
    groups.assign("a", words(0, 200))
    assert groups.assign("b", words(1, 200)) == "a"
    # The new text of "a" has nothing to do with "b", which is still in the group "a".
    assert groups.assign("a", words(700, 900)) == "a~2"
    assert groups.assign("d", words(701, 900)) == "a~2"
    assert groups.assign("e", words(2, 200)) == "a"


def test_a_group_ends_with_its_last_member() -> None:
    groups = NearDuplicates()
    groups.assign("a", words(0, 200))
    groups.forget("a")
    groups.forget("never there")
    assert groups.assign("b", words(0, 200)) is None


def test_groups_are_kept_between_runs(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "groups.npz"
    before = NearDuplicates(path)
    before.assign("a", words(0, 200))
    before.assign("b", words(1, 200))
    before.save()
    after = NearDuplicates(path)
    assert after.assign("c", words(2, 200)) == "a"
    after.forget("a")
    assert after.assign("d", words(0, 200)) == "a"
    assert [file.name for file in path.parent.iterdir()] == ["groups.npz"]


def test_what_another_process_saved_or_deleted_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "groups.npz"
    ours, theirs = NearDuplicates(path), NearDuplicates(path)
    theirs.assign("a", words(0, 200))
    theirs.save()
    ours.refresh()
    assert ours.assign("b", words(1, 200)) == "a"
    # Not saved yet, and nobody else has: it stays.
    ours.refresh()
    ours.save()
    theirs.refresh()
    theirs.forget("a")
    assert theirs.assign("c", words(0, 200)) == "a"
    path.unlink()
    ours.refresh()
    assert ours.assign("d", words(0, 200)) is None


def test_groups_that_did_not_change_are_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "groups.npz"
    groups = NearDuplicates(path)
    groups.assign("a", words(0, 200))
    groups.save()
    before = path.stat().st_ino
    groups.forget("never there")
    groups.save()
    assert path.stat().st_ino == before


@pytest.mark.parametrize("damage", [b"", b"not a zip", b"PK\x03\x04 cut", None])
def test_a_damaged_state_is_begun_anew(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "groups.npz"
    groups = NearDuplicates(path)
    groups.assign("a", words(0, 200))
    groups.save()
    path.write_bytes(path.read_bytes()[:-30] if damage is None else damage)
    assert NearDuplicates(path).assign("b", words(0, 200)) is None


def test_groups_of_another_threshold_are_not_taken_over(tmp_path: Path) -> None:
    groups = NearDuplicates(tmp_path / "groups.npz")
    groups.assign("a", words(0, 200))
    groups.save()
    assert NearDuplicates(tmp_path / "groups.npz", threshold=0.7).assign("b", words(0, 200)) is None


def test_a_threshold_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"threshold: 0\.2; allowed: 0\.5 to 1"):
        NearDuplicates(threshold=0.2)
