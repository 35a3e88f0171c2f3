"""`chorale train confidence` on three small collections, through real workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli.commands.printed import complaint
from tests.support.command_line import Run
from wiring.pipeline import read_fitted

TOPICS = {
    "kitchen": "bread soup rice cheese tea cake salad butter honey pasta",
    "garage": "engine tyre brake clutch battery mirror gearbox exhaust wiper horn",
    "garden": "rose tulip hedge lawn apple pear tomato bean fence pond",
}


def collection(folder: Path, name: str) -> str:
    """A document for each thing, and a question for each document."""
    folder = folder / name
    (folder / "qrels").mkdir(parents=True)
    documents, questions, judged = [], [], ["query-id\tcorpus-id\tscore"]
    for at, thing in enumerate(TOPICS[name].split()):
        text = f"The {thing} in the {name} is looked after every {at + 2} days."
        documents.append({"_id": f"{name}-{at}", "title": "", "text": text})
        questions.append({"_id": f"q{at}", "text": f"how often is the {thing} in the {name} looked after?"})
        judged.append(f"q{at}\t{name}-{at}\t1")
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)))
    (folder / "qrels" / "dev.tsv").write_text("\n".join(judged))
    return f"{folder}:dev"


@pytest.mark.slow
def test_factors_are_fitted_on_two_collections_and_checked_on_a_third(chorale: Run, tmp_path: Path) -> None:
    kitchen, garage, garden = (collection(tmp_path, name) for name in TOPICS)
    out = tmp_path / "confidence.json"
    done = chorale("train", "confidence", kitchen, garage, "--check", garden, "--out", str(out), "--json")

    # Thirty questions are too few to say how well it is calibrated.
    assert done.returncode in (0, 3), done.stderr
    said = json.loads(done.stdout)
    assert [one["signals"] for one in said["figures"]] == [["cosine", "agreement"], ["cosine"]]
    (checked,) = said["figures"][0]["checks"]
    assert (checked["collection"], checked["questions"]) == ("garden", 20)
    assert checked["abstained_below_half"]["own"] < checked["abstained_below_half"]["foreign"]
    own, *shipped = read_fitted(out)
    assert own.fingerprints == shipped[-1].fingerprints[:1]  # the second is that of the int8 weights
    assert json.loads(out.read_text())["how"].startswith(
        "chorale train confidence kitchen:dev garage:dev --check"
    )


def test_one_collection_is_too_few_and_none_is_checked_with_what_was_learned_from_it(
    chorale: Run, tmp_path: Path
) -> None:
    kitchen, garage = (collection(tmp_path, name) for name in ("kitchen", "garage"))
    rest = ("--check", kitchen, "--out", str(tmp_path / "out.json"))
    too_few = complaint(chorale("train", "confidence", kitchen, *rest), 2)
    assert "one collection has no questions of another" in too_few
    twice = complaint(chorale("train", "confidence", kitchen, garage, *rest), 2)
    assert "kitchen is there twice" in twice
    assert not (tmp_path / "out.json").exists()
