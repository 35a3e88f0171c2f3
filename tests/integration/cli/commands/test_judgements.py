"""`chorale judgements` as a person calls it, on the feedback of a running pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from audit.database import open_database
from cli.exit_codes import PART_DONE, WRONG_USAGE
from evaluation.golden_file import read_golden
from judgements import store
from judgements.feedback import Event, Feedback
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.waiting import until

NAMESPACE = "judged"
TEXT = "how is bread baked?"


@pytest.fixture(scope="module")
def engine(pipeline: RunningPipeline) -> Iterator[Engine]:
    engine = open_database(pipeline.resources.settings.audit_database_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def request_id(pipeline: RunningPipeline, engine: Engine) -> str:
    """A recorded question whose first hit has a thumb up, and a click."""
    pipeline.index(namespace=NAMESPACE)
    id_ = pipeline.client().retrieve(TEXT, namespace=NAMESPACE, timeout_s=20).request_id
    until(lambda: store.questions(engine, NAMESPACE, [id_]))
    question = store.questions(engine, NAMESPACE, [id_])[id_, 0]
    events = [Event(request_id=id_, action=action, document_id="bread") for action in ("thumb_up", "click")]
    store.put(engine, [Feedback.on(question, event, 1, "shop", "user") for event in events])
    return id_


def test_exported_judgements_are_golden_questions_and_imported_ones_join_them(
    chorale: Run, request_id: str, tmp_path: Path
) -> None:
    qrels = chorale("judgements", "export", "--format", "trec", "--namespace", NAMESPACE).stdout
    topic, zero, document_id, grade = qrels.rstrip("\n").split("\t")
    assert (len(topic), zero, document_id, grade) == (64, "0", "bread", "2")
    file = tmp_path / "anna.qrels"
    file.write_text(f"{topic} 0 bread 3\n{request_id} 0 notice 1\n")
    imported = chorale("judgements", "import", str(file), "-n", NAMESPACE, "--judge", "anna")
    assert (imported.returncode, imported.stdout) == (0, "2 judgements of judged: imported\n")

    golden = chorale("judgements", "export", "--namespace", NAMESPACE)
    (tmp_path / "judged.jsonl").write_text(golden.stdout)
    (question,) = read_golden(tmp_path / "judged.jsonl")
    # The median of a thumb up (2) and a grade of 3 is the lower of the two.
    assert (question.text, dict(question.expected), question.namespace) == (
        TEXT,
        {"bread": 2, "notice": 1},
        NAMESPACE,
    )
    counted = document(chorale("judgements", "stats", "--namespace", NAMESPACE, "--json"))
    assert counted["events"] == {"judge": {"grade": 2}, "user": {"click": 1, "thumb_up": 1}}
    assert counted["questions"] == {"judged": 1, "all": 1}
    assert counted["hits"]["judged"] >= 1
    assert "user     thumb_up" in chorale("judgements", "stats", "--namespace", NAMESPACE).stdout


def test_events_are_exported_whole_and_imported_again_change_nothing(
    chorale: Run, request_id: str, tmp_path: Path
) -> None:
    events = chorale("judgements", "export", "--format", "jsonl", "--namespace", NAMESPACE).stdout
    actions = [json.loads(line)["action_name"] for line in events.splitlines()]
    assert {"thumb_up", "click"} <= {*actions}
    (tmp_path / "events.jsonl").write_text(events)
    imported = chorale("judgements", "import", str(tmp_path / "events.jsonl"), "-n", NAMESPACE)
    assert imported.returncode == 0, imported.stderr
    assert chorale("judgements", "export", "--format", "jsonl", "--namespace", NAMESPACE).stdout == events


def test_each_mistake_is_answered_with_one_sentence(chorale: Run, request_id: str, tmp_path: Path) -> None:
    file = tmp_path / "judged.qrels"
    file.write_text(f"unknown 0 bread 3\n{request_id} 0 bread 3\n")
    arguments = ("judgements", "import", str(file), "--namespace", NAMESPACE)
    part = chorale(*arguments, "--json")
    assert document(part, PART_DONE) == {"v": 1, "imported": 1, "not_recorded": [1]}
    assert "1 line, first line 1: the trail has no such question" in part.stderr
    file.write_text("bread\n")
    assert "line 1: not `topic 0 document grade`" in complaint(chorale(*arguments), WRONG_USAGE)
    assert "No such file" in complaint(chorale("judgements", "import", str(tmp_path / "missing")), 1)
    assert chorale("judgements", "export", "--namespace", "nowhere").stdout == ""
