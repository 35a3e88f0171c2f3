"""Every branch counts once, and only its first answer counts."""

from __future__ import annotations

import json

from chorale_client.wire_names import QUEUE_FUSION

from tests.support.ledger.requests import CALLBACK
from tests.support.ledger.script import Script, accept, join, lose_entry, plan, queue, report, start, wait


def test_the_first_answer_of_a_branch_wins(planned: Script) -> None:
    planned >> report("bm25", detail="first") >> report("bm25", detail="second") << "duplicate"
    assert json.loads(planned.entry().branch_results["bm25"])["detail"] == "first"


def test_an_answer_replaces_a_failure_but_a_failure_never_replaces_an_answer(planned: Script) -> None:
    planned >> report("bm25", "failed") << "counted" >> report("bm25") << "replaced"
    planned >> report("bm25", "failed") << "duplicate"
    assert json.loads(planned.entry().branch_results["bm25"])["status"] == "ok"


def test_a_branch_reported_twice_counts_once(planned: Script) -> None:
    """Only the last branch's report pushes the callback."""
    planned >> report("bm25") << "counted" >> queue() << 0
    for _ in range(9):
        planned >> report("bm25") << "duplicate"
    planned >> join() << None >> report("vector") << "joined" >> join() << {"bm25", "vector"}
    assert planned.stepped.queue(QUEUE_FUSION) == [CALLBACK]


def test_a_report_after_the_snapshot_changes_nothing(planned: Script) -> None:
    planned >> report("bm25") >> join(force=True) << {"bm25"} >> report("vector") << "closed"
    assert planned.entry().branch_results.keys() == {"bm25"}


def test_a_report_for_an_earlier_request_with_the_same_id_is_turned_away(planned: Script) -> None:
    """For example of a worker that hung since before the earlier request was lost."""
    earlier_ms = planned.stepped.now_ms()
    planned >> start("bm25") >> lose_entry() >> wait(1) >> accept(top_k=7) << "new" >> plan("bm25", "vector")
    planned >> report("bm25", accepted_at_ms=earlier_ms) << "closed"
    planned >> report("bm25", accepted_at_ms=earlier_ms + 1) << "counted"
    # A report without accepted_at is taken.
    planned >> report("bm25") << "duplicate"
