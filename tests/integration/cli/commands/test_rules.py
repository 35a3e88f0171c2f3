"""`chorale rules` as a person calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exit_codes import WRONG_USAGE
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

RULES = """namespace = "shop"

[pin.bakery]
contains = ["baking bread"]
documents = ["deposit", "error"]

[block.outdated]
documents = ["notice"]

[synonyms.lodger]
words = ["lodger", "tenant"]
"""


def test_a_file_is_put_followed_by_searches_got_again_and_an_entry_of_history_is_put_back(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    pipeline.index(namespace="shop")
    file, old = tmp_path / "rules.toml", tmp_path / "old.toml"
    file.write_text(RULES)
    put = chorale("rules", "put", str(file))
    assert (put.returncode, put.stdout) == (0, "shop: version 1, 3 rules, the first\n"), put.stderr
    assert put.stderr == ""

    def pinned() -> bool:
        answer = document(chorale("search", "how is bread baked?", "--namespace", "shop", "--json"))
        hits = [hit["document_id"] for hit in answer["questions"][0]["hits"]]
        return hits[:3] == ["deposit", "error", "bread"]

    assert until(pinned)
    rules = document(chorale("rules", "get", "shop", "--question", "baked bread for lodgers"))["rules"]
    assert rules["pinned"] == {"deposit": "bakery", "error": "bakery"}
    assert rules["also"] == ["tenant"]

    got = chorale("rules", "get", "shop").stdout
    assert got == RULES.replace('"shop"\n', '"shop"\nversion = 1\n', 1)
    file.write_text(got.replace("notice", "repairs"))
    changed = document(chorale("rules", "put", str(file), "--json"))
    assert (changed["version"], changed["replaced"], changed["in_redis"]) == (2, 1, True)
    old.write_text(got.replace("notice", "bread"))
    refused = complaint(chorale("rules", "put", str(old)))
    assert "the rules of 'shop' have changed: they have version 2; read them again" in refused
    file.write_text(chorale("rules", "get", "shop").stdout)
    assert chorale("rules", "put", str(file)).stdout == "shop: version 2, 3 rules, as before\n"

    old.write_text(chorale("rules", "get", "shop", "--version", "1").stdout)
    assert document(chorale("rules", "put", str(old), "--json"))["version"] == 3
    changes = document(chorale("rules", "history", "shop", "--json"))["changes"]
    assert [(change["version"], change["changed"]) for change in changes] == [
        (3, ["outdated"]),
        (2, ["outdated"]),
        (1, []),
    ]
    assert changes[0]["rules"] == changes[2]["rules"]
    last = chorale("rules", "history", "shop", "--count", "1").stdout
    assert [text in last for text in ("command line", "~outdated", "+lodger")] == [True, True, False]
    missing = complaint(chorale("rules", "get", "shop", "--version", "9"), WRONG_USAGE)
    assert "--version: 'shop' has no version 9 of its rules; those that are kept: 0 to 3" in missing


def test_each_mistake_is_answered_with_one_sentence(alone: Run, tmp_path: Path) -> None:
    file, wrong, long = (tmp_path / f"{name}.toml" for name in ("rules", "wrong", "long"))
    file.write_text('namespace = "law"\n')
    wrong.write_text('namespace = "law"\n[pin.a]\ndocument = ["d"]\n')
    long.write_text("# " + "x" * 600_000)
    for name, code, sentence in (
        (file, 1, "there is no namespace 'law'"),
        (wrong, WRONG_USAGE, "pin.a.document: unknown field; the fields are questions, contains, documents"),
        (tmp_path / "missing", 1, "No such file"),
        (long, WRONG_USAGE, "longer than 524,288 characters"),
    ):
        assert sentence in complaint(alone("rules", "put", str(name)), code)
    assert alone("rules", "history", "law").stdout == "law: nobody has written rules yet\n"


@pytest.mark.slow
def test_rules_can_be_written_while_nothing_runs(alone: Run, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('namespace = "law"\n[block.old]\ndocuments = ["old"]\n')
    assert alone("namespaces", "create", "law").returncode == 0
    called = alone("rules", "put", str(file))
    assert called.returncode == 0, called.stderr
    assert "the rules hold when a sweeper has copied them" in called.stderr


def test_weights_that_no_search_uses_are_named(
    chorale: Run, pipeline: RunningPipeline, tmp_path: Path
) -> None:
    pipeline.index(namespace="weighted")
    file = tmp_path / "rules.toml"
    file.write_text(
        'namespace = "weighted"\n[weights.a]\nconfiguration = "nope"\nbranches = { bm25 = 1 }\n'
        '[weights.b]\nconfiguration = "rrf"\nbranches = { bm25 = 1, bn25 = 1 }\n'
    )
    put = chorale("rules", "put", str(file))
    assert put.stdout == "weighted: version 1, 2 rules, the first\n"
    configurations = ", ".join(sorted(pipeline.resources.pipeline.configurations))
    branches = ", ".join(sorted(branch.name for branch in pipeline.resources.pipeline.branches))
    assert put.stderr.splitlines() == [
        f"weights.a: the pipeline file here has no configuration 'nope'; there are: {configurations}",
        f"weights.b: the pipeline file here has no branch 'bn25'; there are: {branches}",
    ]
