"""Callers with keys learn what is missing, and no address or folder of the installation."""

from __future__ import annotations

from typing import Any

from chorale_client.answer import Answer
from chorale_client.index_tickets import Indexed

from records.keys.redaction import redacted, redacted_index_report, redacted_line

SECRET = "http://10.0.0.7:9200 and /var/lib/chorale"
DEGRADED = [
    {"where": "search.bm25", "reason": "unavailable", "detail": f"Elasticsearch at {SECRET} did not answer"},
    {"where": "search.vector", "reason": "not_started", "detail": "no worker took it"},
    {"where": "plan", "reason": "not_configured", "detail": "weights: no 'x'; there are: bm25"},
]


def test_details_of_servers_are_left_out_and_the_others_stay() -> None:
    teams = '{"A":["one"],"B":["two"]}'
    hypothesis = f"openai, feedback (unavailable: {SECRET})"
    stages = [
        {"stage": "hypothesis", "status": "partial", "detail": hypothesis},
        {"stage": "search.bm25", "status": "failed", "detail": f"unavailable: {SECRET}"},
        {"stage": "fold", "status": "skipped", "detail": "not_declared"},
        {"stage": "interleave", "status": "ok", "detail": teams},
    ]
    warnings = [f"cache: unavailable: {SECRET}", "filter 'x': no document has this field, so nothing matches"]
    answer = {"request_id": "t.acme.1", "status": "degraded", "degraded": DEGRADED, "questions": []}
    visible = redacted(Answer.from_wire({**answer, "stages": stages, "warnings": warnings}))
    assert "10.0.0.7" not in visible.model_dump_json()
    assert "/var/lib" not in visible.model_dump_json()
    details = [part.detail for part in visible.degraded]
    assert details == ["", "no worker took it", "weights: no 'x'; there are: bm25"]
    assert [stage.detail for stage in visible.stages] == [
        "openai, feedback",
        "unavailable",
        "not_declared",
        teams,
    ]
    assert visible.warnings == ("cache: unavailable", warnings[1])
    assert redacted(visible) == visible


def test_a_line_of_a_job_is_redacted_as_an_answer_is() -> None:
    error = f"search.bm25: {SECRET}"
    line: dict[str, Any] = {"line": 1, "status": "failed", "degraded": DEGRADED[:2], "error": error}
    visible = redacted_line(line)
    assert visible["error"] == "search.bm25: unavailable; search.vector: not_started no worker took it"
    assert [part["detail"] for part in visible["degraded"]] == ["", "no worker took it"]
    fine = {**line, "degraded": [], "error": None}
    assert redacted_line(fine) == fine
    assert redacted_line({**line, "status": "degraded", "error": None})["error"] is None


def test_the_outcome_of_documents_says_what_is_missing_and_names_no_server() -> None:
    report = Indexed(
        "docs",
        added=1,
        skipped=["tea: no text", f"rice: not written: Elasticsearch at {SECRET} refuses it"],
        unwritten={"bread": f"search: Elasticsearch at {SECRET} did not answer"},
    )
    visible = redacted_index_report(report)
    assert (visible.added, visible.skipped) == (1, ["tea: no text", "rice: not written"])
    assert visible.unwritten == {"bread": "not every store has taken it yet"}
    failed = redacted_index_report(Indexed("docs", error=f"the corpus in {SECRET} is damaged"))
    assert failed.error == "the documents could not be written; the log of the service says why"
    assert redacted_index_report(Indexed("docs", deleted=2)) == Indexed("docs", deleted=2)
