"""Weights that follow the grades of users: chosen on a schedule, within bounds, in the trail, and taken back by a command."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chorale_client import Answer
from pydantic_core import from_json

from config import extensions
from config.declarations import proposed_name
from evaluation.tuning.adapting import Adapting
from models.hits import Ranking
from records.database import open_database, upgrade
from records.rules.adaptation_checks import read_adaptation_checks
from records.rules.store import RuleStore
from tasks.branches.branch_task import BranchTask
from tasks.branches.searches import KINDS
from tests.support.command_line import in_process
from tests.support.models.hashing_embedder import HashingEmbedder
from tests.support.models.used_embedder import use_embedder
from tests.support.pipelines import kinds
from tests.support.pipelines.one_process import OneProcess
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

QUESTIONS = 24


def word(number: int) -> str:
    """The question of this number; no identifier, which BM25 would count for more."""
    return f"{chr(ord('a') + number)}plum"


CORPUS = {
    f"{name}-{number}": (word(number), f"{word(number)} " * times + "pear " * (9 - times))
    for number in range(QUESTIONS)
    for times, name in enumerate(["a", "b", "c", "right"], start=1)
}
"""BM25 ranks `right` before the others of its number, and `backwards` after them."""
BEST = """
[configurations.best]
method = "rrf"
weights = {{ bm25 = 0.4, backwards = 0.6 }}
[configurations.best.adapt]
every_h = {every_h}
bounds = {{ bm25 = [0.2, 0.52], backwards = [0.3, 0.8] }}
mode = "{mode}"
"""
SHARED = '[interleaving]\na = "best"\nb = "best-proposed"\nshare = 1\n'
SOON_H = 0.2 / 3_600


def backwards(part: BranchTask) -> list[Ranking]:
    """As BM25, with the last hit first."""
    return [
        Ranking(
            hits=tuple(
                hit._replace(score=other.score)
                for hit, other in zip(ranking.hits[::-1], ranking.hits, strict=True)
            )
        )
        for ranking in KINDS["bm25"].search(part)
    ]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    kinds.declare(backwards=backwards)
    yield
    vars(kinds.DECLARED).clear()
    monkeypatch.undo()
    extensions.installed.cache_clear()
    extensions.offered.cache_clear()


THERE = (
    "from tests.integration.tasks.test_adapting import backwards; "
    "from tests.support.pipelines.kinds import declare; declare(backwards=backwards)"
)


def declared(folder: Path, mode: str, *, every_h: float = SOON_H, more: str = "") -> Path:
    file = folder / "pipeline.toml"
    tables = [LOCAL, branch("bm25"), branch("backwards"), BEST.format(mode=mode, every_h=every_h), more]
    file.write_text("".join(tables), encoding="utf-8")
    return file


def commanded(pipeline: RunningPipeline, *words: str) -> Any:
    called = in_process(*words, "--json", **pipeline.environment)
    assert called.returncode == 0, called.stderr
    return from_json(called.stdout)


def put(pipeline: RunningPipeline, file: str) -> None:
    called = in_process("rules", "put", "-", stdin=file, **pipeline.environment)
    assert called.returncode == 0, called.stderr


def graded(pipeline: RunningPipeline, folder: Path, answers: Iterable[Answer], grade: int = 3) -> None:
    """Imports a grade of the right document of each answer, once the trail has it."""
    file = folder / "judged.qrels"
    lines = []
    for answer in answers:
        (right,) = [hit.document_id for hit in answer.hits if hit.document_id.startswith("right")]
        lines.append(f"{answer.request_id} 0 {right} {grade}\n")
    file.write_text("".join(lines))
    imported = ["judgements", "import", str(file), "--namespace", "plums", "--judge", "anna"]
    until(lambda: in_process(*imported, **pipeline.environment).returncode == 0)


def weights(answer: Answer) -> dict[str, float]:
    return {name: part.weight for name, part in answer.hits[0].branches.items()}


OPTIONS: dict[str, Any] = {"namespace": "plums", "include": ["ids", "explanation"]}


@pytest.mark.slow
def test_enough_new_grades_change_the_weights_of_a_running_installation_and_a_command_takes_them_back(
    tmp_path: Path,
) -> None:
    file = declared(tmp_path, "take")
    with (
        RedisServer() as server,
        RunningPipeline(server, sweeper=True, pipeline_file=file, preload=THERE) as pipeline,
    ):
        pipeline.index(CORPUS, namespace="plums")
        client = pipeline.client()

        def ask(number: int, **options: Any) -> Answer:
            return client.retrieve(word(number), timeout_s=30, **OPTIONS, **options)

        def ask_until(is_ruled: bool) -> Answer:
            return until(lambda: [now for now in [ask(0)] if bool(now.questions[0].rules) is is_ruled])[0]

        def outcome() -> str:
            checks = commanded(pipeline, "status")["adapting"]
            return str(checks[0]["outcome"]) if checks else ""

        answers = [ask(number) for number in range(QUESTIONS)]
        assert weights(answers[0]) == {"bm25": 0.4, "backwards": 0.6}
        assert {answer.hits[0].document_id[0] for answer in answers} == {"a"}

        graded(pipeline, tmp_path, answers[:5])
        assert until(outcome) == "5 new grades, and at least 20 are needed"
        assert commanded(pipeline, "rules", "history", "plums")["changes"] == []

        graded(pipeline, tmp_path, answers)
        until(lambda: outcome().startswith("taken: "))
        # Above .5 the right document is first, and .52 is the bound.
        changed = ask_until(is_ruled=True)
        assert weights(changed) == {"bm25": 0.52, "backwards": 0.48}
        assert changed.questions[0].rules == ("weights-best",)
        assert changed.hits[0].document_id == "right-0"
        (change,) = commanded(pipeline, "rules", "history", "plums")["changes"]
        assert change["added"] == ["weights-best"]
        assert re.fullmatch(
            r"adapt: bm25 0.52, backwards 0.48: nDCG@10 \+0\.\d+ .* on 24 held-out questions",
            change["changed_by"],
        )

        before = commanded(pipeline, "rules", "get", "plums", "--version", "0")
        put(pipeline, json.dumps(before))
        back = ask_until(is_ruled=False)
        assert weights(back) == {"bm25": 0.4, "backwards": 0.6}
        # Grades that have changed the weights once do not change them again.
        assert until(lambda: outcome().startswith("0 new grades"))
        changes = commanded(pipeline, "rules", "history", "plums")["changes"]
        assert [(change["version"], change["removed"]) for change in changes] == [
            (2, ["weights-best"]),
            (1, []),
        ]


@pytest.fixture
def plums(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OneProcess]:
    """A pipeline in this process that adapts at every check, in a mode and with further tables."""
    mode, more = request.param
    file = declared(tmp_path, mode, every_h=1e-9, more=more)
    with (
        RedisServer() as server,
        OneProcess(server, pipeline_file=file) as pipeline,
    ):
        monkeypatch.setattr("records.rules.matching.READ_EVERY_S", 0)
        use_embedder(pipeline.resources, HashingEmbedder())
        pipeline.index(CORPUS, namespace="plums")
        yield pipeline


def adapt(pipeline: OneProcess) -> str:
    """Looks once; returns the outcome."""
    url = pipeline.resources.settings.audit_database_url
    engine = open_database(url)
    duty = Adapting(pipeline.resources, engine, lambda: upgrade(url))
    duty.tick()
    duty._lease.release()
    engine.dispose()
    (check,) = read_adaptation_checks(pipeline.redis)
    return check.outcome


def ask_all(pipeline: OneProcess, **options: Any) -> list[Answer]:
    answers = [pipeline.ask(word(number), **OPTIONS, **options) for number in range(QUESTIONS)]
    pipeline.drain()
    return answers


@pytest.mark.parametrize("plums", [("propose", "")], indirect=True)
def test_proposed_weights_are_those_of_another_configuration_until_a_command_takes_them(
    plums: OneProcess, tmp_path: Path
) -> None:
    graded(plums, tmp_path, ask_all(plums))
    assert adapt(plums).startswith("proposed as best-proposed: bm25 0.52, backwards 0.48")
    chosen = {"bm25": 0.52, "backwards": 0.48}
    present = {"bm25": 0.4, "backwards": 0.6}
    options = {**OPTIONS, "cache": "bypass"}
    assert weights(plums.ask(word(1), configuration="best", **options)) == present
    assert weights(plums.ask(word(1), configuration="best-proposed", **options)) == chosen
    file = commanded(plums, "rules", "get", "plums")
    (proposal,) = file["weights"].values()
    put(plums, json.dumps({**file, "weights": {"mine": {**proposal, "configuration": "best"}}}))
    assert weights(plums.ask(word(1), configuration="best", **options)) == chosen
    assert weights(plums.ask(word(1), configuration="best-proposed", **options)) == present
    # A request's own weights come first.
    own = {"bm25": 0.1, "backwards": 0.9}
    assert weights(plums.ask(word(1), weights=own, **options)) == own


@pytest.mark.parametrize("plums", [("take", SHARED)], indirect=True)
def test_interleaved_weights_are_taken_once_people_prefer_them(plums: OneProcess, tmp_path: Path) -> None:
    graded(plums, tmp_path, ask_all(plums))
    assert adapt(plums).startswith("proposed as best-proposed")
    live = ["compare", "--live", "best", proposed_name("best")]
    # Pages under the weights before count no more once a page under the new ones is in the trail.
    assert adapt(plums).startswith("proposed as best-proposed: no decision yet")
    # A draw decides whose hit comes first; eight of the same side are enough for a decision.
    pages: list[Answer] = []
    first: list[Answer] = []
    while len(first) < 8:
        pages += ask_all(plums, top_k=1)
        first = [answer for answer in pages if answer.hits[0].document_id.startswith("right")]
    assert commanded(plums, *live)["shared"] == len(pages)
    graded(plums, tmp_path, first)
    assert commanded(plums, *live)["better"] == "B"
    assert adapt(plums).startswith("taken: B (best-proposed) is better")
    store = RuleStore(open_database(plums.resources.settings.audit_database_url))
    assert [rule.configuration for rule in store.current("plums").rules.weights.values()] == ["best"]


@pytest.mark.parametrize("plums", [("take", "")], indirect=True)
def test_a_rule_outside_of_the_bounds_does_not_hold_and_the_answer_says_so(plums: OneProcess) -> None:
    rules = 'namespace = "plums"\n[weights.mine]\nconfiguration = "best"\n'
    rules += "branches = { bm25 = 0.9, backwards = 0.1 }\n"
    upgrade(plums.resources.settings.audit_database_url)
    put(plums, rules)
    answer = plums.ask(word(1), **OPTIONS)
    assert weights(answer) == {"bm25": 0.4, "backwards": 0.6}
    assert answer.questions[0].rules == ()
    assert answer.warnings == (
        "rules: mine: bm25 has 0.9 of all weight, and its bounds are 0.2 and 0.52; backwards has 0.1 of all weight, "
        "and its bounds are 0.3 and 0.8; the declared weights hold",
    )
