"""`chorale status` and `chorale audit` on a running pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.cli.commands.printed import complaint, document, output
from tests.support.command_line import Run
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.own_server import free_ports
from tests.support.waiting import until


def test_status_shows_every_worker_queue_and_namespace(chorale: Run, pipeline: RunningPipeline) -> None:
    status = document(chorale("status", "--json"))
    workers = {worker["name"]: worker for worker in status["workers"]}
    assert workers.keys() == {"worker", "chorale.vector", "chorale.bulk", "sweeper"}
    assert all(worker["is_ready"] for worker in workers.values())
    assert workers["chorale.vector"]["pid"] == pipeline.processes["chorale.vector"].pid
    assert [queue["queue"] for queue in status["queues"]] == list(pipeline.resources.pipeline.queues)
    assert (status["v"], status["requests_in_flight"]) == (1, 0)
    assert status["has_more_namespaces"] is False
    (default,) = (state for state in status["namespaces"] if state["name"] == "default")
    assert (default["documents"], default["generation"], default["published_generation"]) == (5, 1, 1)

    words = output(chorale("status"))
    assert "0 in flight" in words
    assert "ready" in words
    metrics = output(chorale("status", "--prometheus"))
    for queue in pipeline.resources.pipeline.queues:
        assert f'chorale_queue_messages{{queue="{queue}"}} 0.0' in metrics


def test_status_without_the_documents_database_shows_workers_and_queues_and_names_it(
    chorale: Run, tmp_path: Path
) -> None:
    [port] = free_ports(1)
    other = '[stores.other]\nkind = "embedded"\noptions = { folder = "other" }\n'
    file = tmp_path / "pipeline.toml"
    file.write_text(LOCAL + other + branch("bm25"))
    away = {
        "CHORALE_PIPELINE_FILE": str(file),
        "CHORALE_DOCUMENTS_URL": f"postgresql://chorale:opensesame@127.0.0.1:{port}/chorale",
    }
    called = chorale("status", "--json", **away)
    assert (called.returncode, called.stderr) == (1, "")
    status = json.loads(called.stdout)
    assert "worker" in {worker["name"] for worker in status["workers"]}
    assert status["namespaces"] is None
    finding = status["findings"][-1]
    assert finding["check"] == "documents"
    assert "Connection refused" in finding["what"]
    assert finding["mend"].startswith("start it, or correct CHORALE_DOCUMENTS_URL (")
    words = chorale("status", **away).stdout
    assert "chorale.retrieve" in words
    assert "no namespaces yet" not in words
    assert "opensesame" not in words


def test_audit_lists_the_last_request_and_shows_everything_about_it(
    chorale: Run, pipeline: RunningPipeline
) -> None:
    question = "who pays for repairs"
    options: dict[str, Any] = {"correlation_id": "ours-1", "include": ("ids", "explanation")}
    answer = pipeline.client().retrieve(question, cache="bypass", timeout_s=20, **options)

    def lines() -> list[dict[str, Any]]:
        listed = document(chorale("audit", "last", "--json"))["requests"]
        return [line for line in listed if line["request_id"] == answer.request_id]

    (line,) = until(lines)
    assert (line["text"], line["status"], line["correlation_id"]) == (question, answer.status, "ours-1")

    whole = document(chorale("audit", "show", answer.request_id, "--json"))["request"]
    hits = [hit["document_id"] for hit in whole["questions"][0]["hits"]]
    assert hits == [hit.document_id for hit in answer.hits]
    assert {branch["branch"] for branch in whole["branches"]} == {"bm25", "vector", "hyde"}

    # A beginning of the id is enough.
    words = output(chorale("audit", "show", answer.request_id[:13]))
    assert answer.request_id in words
    assert f"vector #{answer.hits[0].branches['vector'].rank}" in words
    assert question in output(chorale("audit", "last", "3"))


def test_audit_names_an_unknown_request_and_a_missing_trail(chorale: Run, alone: Run) -> None:
    unknown = complaint(chorale("audit", "show", "no-such-id"))
    assert unknown.startswith("chorale: the trail has no request 'no-such-id'")
    assert "there is no audit database sqlite:///" in complaint(alone("audit", "last", "--json"))
