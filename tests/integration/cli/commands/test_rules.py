"""`chorale rules` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.exit_codes import WRONG_USAGE
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
        found = chorale("search", "how is bread baked?", "--namespace", "shop", "--json")
        hits = json.loads(found.stdout)["questions"][0]["hits"]
        return [hit["document_id"] for hit in hits[:3]] == ["deposit", "error", "bread"]

    assert until(pinned)

    shown = chorale("rules", "show", "shop")
    assert shown.stdout == (
        '[pin.baking-bread]\ncontains = ["baking bread"]\ndocuments = ["deposit", "error"]\n\n'
        '[block.outdated]\ndocuments = ["notice"]\n\n'
        '[synonyms.lodger]\nwords = ["lodger", "tenant"]\n'
    )
    told = json.loads(chorale("rules", "show", "shop", "--question", "baked bread for lodgers").stdout)
    assert told["rules"]["pinned"] == {"deposit": "baking-bread", "error": "baking-bread"}
    assert told["rules"]["also"] == ["tenant"]

    file = tmp_path / "rules.toml"
    file.write_text(shown.stdout.replace("notice", "repairs"))
    assert chorale("rules", "set", "shop", str(file)).stdout == "shop: version 4, 3 rules\n"
    assert chorale("rules", "set", "shop", str(file)).stdout == "shop: version 4, 3 rules\n"
    removed = chorale("rules", "remove", "shop", "outdated", "lodger", "--json")
    assert json.loads(removed.stdout)["in_redis"] is True
    changes = json.loads(chorale("rules", "history", "shop", "--json").stdout)["changes"]
    assert [(one["version"], one["added"], one["changed"], one["removed"]) for one in changes] == [
        (5, [], [], ["outdated", "lodger"]),
        (4, [], ["outdated"], []),
        (3, ["lodger"], [], []),
        (2, ["outdated"], [], []),
        (1, ["baking-bread"], [], []),
    ]
    listed = chorale("rules", "history", "shop", "--count", "2").stdout
    assert "command line" in listed
    assert "~outdated" in listed
    assert "+lodger" not in listed


def test_each_mistake_is_answered_with_one_sentence(alone: Run, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[pin.a]\ndocument = ["d"]\n')
    for arguments, code, said in (
        (("pin", "law", "d", "--contains", "x"), 1, "there is no namespace 'law'"),
        (("set", "law", str(file)), WRONG_USAGE, "pin.a.document: unknown field"),
        (("set", "law", str(tmp_path / "missing")), 1, "No such file"),
    ):
        called = alone("rules", *arguments)
        assert called.returncode == code, called.stderr
        assert said in called.stderr
        assert called.stdout == ""
    file.write_text("# " + "x" * 600_000)
    assert "longer than 524,288 characters" in alone("rules", "set", "law", str(file)).stderr
    assert alone("rules", "history", "law").stdout == "law: nobody has written rules yet\n"


@pytest.mark.slow
def test_rules_can_be_written_while_nothing_runs(alone: Run) -> None:
    assert alone("namespaces", "create", "law").returncode == 0
    called = alone("rules", "block", "law", "old")
    assert called.returncode == 0, called.stderr
    assert "the rules hold when a sweeper has copied them" in called.stderr
    assert alone("rules", "remove", "law", "nothing").returncode == WRONG_USAGE
