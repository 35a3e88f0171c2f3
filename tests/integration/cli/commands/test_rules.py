"""`chorale rules` as a person calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exit_codes import WRONG_USAGE
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until


def test_rules_are_added_one_by_one_shown_as_a_file_and_their_history_is_kept(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    pipeline.index(namespace="shop")
    added = chorale("rules", "pin", "shop", "deposit", "error", "--contains", "baking bread")
    assert (added.returncode, added.stdout) == (0, "shop: version 1, 1 rule\n"), added.stderr
    chorale("rules", "block", "shop", "notice", "--name", "outdated")
    chorale("rules", "synonyms", "shop", "lodger", "tenant")

    def pinned() -> bool:
        answer = document(chorale("search", "how is bread baked?", "--namespace", "shop", "--json"))
        hits = [hit["document_id"] for hit in answer["questions"][0]["hits"]]
        return hits[:3] == ["deposit", "error", "bread"]

    assert until(pinned)
    file = chorale("rules", "show", "shop").stdout
    assert file == (
        '[pin.baking-bread]\ncontains = ["baking bread"]\ndocuments = ["deposit", "error"]\n\n'
        '[block.outdated]\ndocuments = ["notice"]\n\n'
        '[synonyms.lodger]\nwords = ["lodger", "tenant"]\n'
    )
    rules = document(chorale("rules", "show", "shop", "--question", "baked bread for lodgers"))["rules"]
    assert rules["pinned"] == {"deposit": "baking-bread", "error": "baking-bread"}
    assert rules["also"] == ["tenant"]

    (tmp_path / "rules.toml").write_text(file.replace("notice", "repairs"))
    for _ in range(2):
        again = chorale("rules", "set", "shop", str(tmp_path / "rules.toml"))
        assert again.stdout == "shop: version 4, 3 rules\n"
    removed = document(chorale("rules", "remove", "shop", "outdated", "lodger", "--json"))
    assert removed["in_redis"] is True
    changes = document(chorale("rules", "history", "shop", "--json"))["changes"]
    assert [change["version"] for change in changes] == [5, 4, 3, 2, 1]
    assert changes[0]["removed"] == ["outdated", "lodger"]
    assert (changes[1]["changed"], changes[2]["added"]) == (["outdated"], ["lodger"])
    last_two = chorale("rules", "history", "shop", "--count", "2").stdout
    expected = {"command line": True, "~outdated": True, "+lodger": False}
    assert {text: text in last_two for text in expected} == expected

    taken_back = document(chorale("rules", "undo", "shop", "--version", "4", "--json"))
    assert (taken_back["version"], sorted(taken_back["rules"])) == (6, ["block", "pin", "synonyms"])
    once_more = document(chorale("rules", "undo", "shop", "--json"))
    assert (once_more["version"], sorted(once_more["rules"])) == (7, ["pin"])
    missing = complaint(chorale("rules", "undo", "shop", "--version", "9"), WRONG_USAGE)
    assert "--version: 'shop' has no version 9 of its rules" in missing
    missing = complaint(chorale("rules", "take", "shop", "rrf"), WRONG_USAGE)
    assert "no weights are proposed for 'rrf'" in missing


def test_each_mistake_is_answered_with_one_sentence(alone: Run, tmp_path: Path) -> None:
    file, long = tmp_path / "rules.toml", tmp_path / "long.toml"
    file.write_text('[pin.a]\ndocument = ["d"]\n')
    long.write_text("# " + "x" * 600_000)
    for arguments, code, sentence in (
        (("pin", "law", "d", "--contains", "x"), 1, "there is no namespace 'law'"),
        (("set", "law", str(file)), WRONG_USAGE, "pin.a.document: unknown field"),
        (("set", "law", str(tmp_path / "missing")), 1, "No such file"),
        (("set", "law", str(long)), WRONG_USAGE, "longer than 524,288 characters"),
    ):
        assert sentence in complaint(alone("rules", *arguments), code)
    assert alone("rules", "history", "law").stdout == "law: nobody has written rules yet\n"


@pytest.mark.slow
def test_rules_can_be_written_while_nothing_runs(alone: Run) -> None:
    assert alone("namespaces", "create", "law").returncode == 0
    called = alone("rules", "block", "law", "old")
    assert called.returncode == 0, called.stderr
    assert "the rules hold when a sweeper has copied them" in called.stderr
    assert alone("rules", "remove", "law", "nothing").returncode == WRONG_USAGE
