"""Reading one entry of the outbox."""

from __future__ import annotations

import pytest

from audit.outbox import Unreadable, parse
from models.envelope import Envelope
from tests.support.ledger.audit_entries import ACCEPTED_AT_MS, make_entry, make_request, whole_entry


def test_an_entry_names_the_request_who_ended_it_and_when() -> None:
    request = make_request(request_id="one", namespace="docs")
    ended = parse(whole_entry(request, by="sweeper"))
    assert (ended.request_id, ended.by) == ("one", "sweeper")
    assert (ended.accepted_at_ms, ended.ended_at_ms) == (ACCEPTED_AT_MS, ACCEPTED_AT_MS + 31)
    assert ended.request["namespace"] == "docs"
    assert ended.plan is not None
    assert ended.plan["method"] == "rrf"
    assert ended.answer["status"] == "complete"
    assert [hit[1] for hit in ended.envelopes["hyde"]["rankings"][0]["hits"]] == [
        "docs:guide.md",
        "docs:hyde.md",
    ]


def test_bytes_and_text_are_read_alike() -> None:
    entry = whole_entry()
    assert parse({name.encode(): value.encode() for name, value in entry.items()}) == parse(entry)


def test_a_request_that_was_never_planned_has_no_plan_and_no_envelopes() -> None:
    ended = parse(make_entry(make_request(), by="sweeper"))
    assert ended.plan is None
    assert ended.envelopes == {}


def test_fields_of_a_newer_version_are_ignored() -> None:
    entry = whole_entry()
    assert parse({**entry, "region": "eu"}) == parse(entry)


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
def test_a_malformed_envelope_is_a_failed_branch_as_in_fusion(wire: str) -> None:
    ended = parse({**whole_entry(), "envelope:vector": wire})
    taken_for = Envelope.from_wire("vector", wire)
    assert (taken_for.status, taken_for.reason) == ("failed", "invalid_answer")
    read = ended.envelopes["vector"]
    assert (read["status"], read["reason"]) == (taken_for.status, taken_for.reason)
    assert ended.envelopes["bm25"]["status"] == "ok"


@pytest.mark.parametrize("name", ["id", "accepted_at", "ended_at", "answer"])
def test_a_missing_field_is_named(name: str) -> None:
    entry = whole_entry()
    del entry[name]
    with pytest.raises(Unreadable, match=f"no field '{name}'"):
        parse(entry)


@pytest.mark.parametrize(
    ("name", "value"),
    [("accepted_at", "yesterday"), ("answer", "{"), ("answer", "[]"), ("request", "7"), ("plan", '"rrf"')],
)
def test_a_malformed_field_makes_the_entry_unreadable(name: str, value: str) -> None:
    with pytest.raises(Unreadable):
        parse({**whole_entry(), name: value})


def test_bytes_that_are_not_utf_8_make_the_entry_unreadable() -> None:
    entry = {name.encode(): value.encode() for name, value in whole_entry().items()}
    with pytest.raises(Unreadable):
        parse({**entry, b"by": b"\xff\xfe"})


def test_an_entry_whose_fields_have_no_readable_name_is_unreadable() -> None:
    # A caller's login can add any entry: the drainer sets it aside and continues.
    with pytest.raises(Unreadable, match="a field's name"):
        parse({b"\xff": b"1"})
