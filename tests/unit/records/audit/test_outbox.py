"""Reading one entry of the outbox."""

from __future__ import annotations

import pytest

from models.branch_result import BranchResult
from records.audit.outbox import Unreadable, parse
from tests.support.ledger.audit_entries import ACCEPTED_AT_MS, make_entry, make_request, whole_entry


def as_bytes(entry: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in entry.items()}


def test_an_entry_names_the_request_who_ended_it_and_when() -> None:
    entry = whole_entry(make_request(request_id="one", namespace="docs"), by="sweeper")
    ended = parse(entry)
    assert (ended.request_id, ended.by) == ("one", "sweeper")
    assert (ended.accepted_at_ms, ended.ended_at_ms) == (ACCEPTED_AT_MS, ACCEPTED_AT_MS + 31)
    assert ended.plan is not None
    assert (ended.request["namespace"], ended.plan["method"]) == ("docs", "rrf")
    assert ended.answer["status"] == "complete"
    hits = ended.branch_results["hyde"]["rankings"][0]["hits"]
    assert [hit[1] for hit in hits] == ["docs:guide.md", "docs:hyde.md"]
    assert parse(as_bytes({**entry, "field of a newer version": "eu"})) == ended
    never_planned = parse(make_entry(make_request(), by="sweeper"))
    assert (never_planned.plan, never_planned.branch_results) == (None, {})


@pytest.mark.parametrize(
    "wire",
    [
        '{"status": ',
        "[]",
        "7",
        '{"rankings": []}',
        '{"status": "ok", "rankings": [{}]}',
        '{"status": "ok", "rankings": [{"hits": [["id", "id"]]}]}',
        '{"status": "ok", "rankings": [{"hits": [7]}]}',
    ],
)
def test_a_malformed_branch_result_is_a_failed_branch_as_in_fusion(wire: str) -> None:
    ended = parse({**whole_entry(), "result:vector": wire})
    branch_result = BranchResult.from_wire("vector", wire)
    assert (branch_result.status, branch_result.reason) == ("failed", "invalid_answer")
    read = ended.branch_results["vector"]
    assert (read["status"], read["reason"]) == (branch_result.status, branch_result.reason)
    assert ended.branch_results["bm25"]["status"] == "ok"


@pytest.mark.parametrize(
    ("name", "value"),
    [("accepted_at", "yesterday"), ("answer", "{"), ("answer", "[]"), ("request", "7"), ("plan", '"rrf"')],
)
def test_a_malformed_field_makes_the_entry_unreadable(name: str, value: str) -> None:
    with pytest.raises(Unreadable):
        parse({**whole_entry(), name: value})


def test_a_missing_field_is_named_and_bytes_that_are_not_utf_8_are_unreadable() -> None:
    entry = whole_entry()
    for name in ("id", "accepted_at", "ended_at", "answer"):
        with pytest.raises(Unreadable, match=f"no field '{name}'"):
            parse({field: value for field, value in entry.items() if field != name})
    with pytest.raises(Unreadable):
        parse({**as_bytes(entry), b"by": b"\xff\xfe"})
    # A caller's login can add any entry: the drainer sets it aside and continues.
    with pytest.raises(Unreadable, match="a field's name"):
        parse({b"\xff": b"1"})
