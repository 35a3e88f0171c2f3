"""`chorale judgements` as a person calls it, on the feedback of a running pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from cli.exit_codes import PART_DONE, WRONG_USAGE
from evaluation.judged.golden import read_golden
from records.database import open_database
from records.judgements import store
from records.judgements.feedback import Event, Feedback
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.chat_server import ChatServer, says, sends
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


def test_a_language_model_grades_hits_and_people_check_a_sample_of_them(
    chorale: Run, pipeline: RunningPipeline, engine: Engine, tmp_path: Path
) -> None:
    name, file = "graded-by-a-model", tmp_path / "pipeline.toml"
    pipeline.index(namespace=name)
    id_ = pipeline.client().retrieve(TEXT, namespace=name, timeout_s=20, top_k=3).request_id
    until(lambda: store.questions(engine, name, [id_]))
    with ChatServer(says("3")) as server:
        options = f'options = {{ generator = "openai", url = "{server.url}", model = "tiny" }}'
        file.write_text(LOCAL + branch("bm25") + branch("hyde", "dense", more=options))
        environment = {"CHORALE_PIPELINE_FILE": str(file)}
        grade = ("judgements", "grade", "hyde", "--namespace", name)
        server.then = [sends(401)]
        part = chorale(*grade, "--json", **environment)
        assert document(part, PART_DONE) == {"v": 1, "graded": 2, "not_graded": 1}
        assert "1 hit not graded, the first: unauthorised" in part.stderr
        again = chorale(*grade, **environment)
        assert (again.returncode, again.stdout) == (0, f"1 hit of {name}: graded by tiny\n")
        assert len(server.prompts) == 4
        assert all(f"Question: {TEXT}" in prompt for prompt in server.prompts)
        wrong = chorale("judgements", "grade", "bm25", "--namespace", name, **environment)
        assert "no branch 'bm25' asks a language model; there are: hyde" in complaint(wrong, 1)

    # People's judgements are apart, also after an export and import of all events.
    assert chorale("judgements", "export", "--namespace", name).stdout == ""
    events = chorale("judgements", "export", "--format", "jsonl", "--by-llm", "--namespace", name).stdout
    (tmp_path / "llm.jsonl").write_text(events)
    assert chorale("judgements", "import", str(tmp_path / "llm.jsonl"), "-n", name).returncode == 0
    assert chorale("judgements", "export", "--namespace", name).stdout == ""
    golden = json.loads(chorale("judgements", "export", "--by-llm", "--namespace", name).stdout)
    assert set(golden["expected"].values()) == {3}

    sample = chorale("judgements", "sample", "--namespace", name, "--per-grade", "2").stdout.splitlines()
    assert len(sample) == 2
    filled = [
        json.dumps({**json.loads(line), "grade": grade}) for line, grade in zip(sample, (3, 1), strict=True)
    ]
    (tmp_path / "check.jsonl").write_text("\n".join(filled))
    assert chorale("judgements", "import", str(tmp_path / "check.jsonl"), "-n", name).returncode == 0
    stats = document(chorale("judgements", "stats", "--namespace", name, "--json"))
    assert stats["agreement"] == {"hits": 2, "equal": 1, "kappa": 0.0}
    assert stats["events"] == {"llm": {"grade": 3}, "judge": {"grade": 2}}
    assert stats["hits"]["judged"] == 2
