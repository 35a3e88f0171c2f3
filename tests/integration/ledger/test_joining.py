"""One fusion takes a request, when every branch has reported or their time is over."""

from __future__ import annotations

from tests.support.ledger.script import (
    Script,
    accept,
    finish,
    join,
    lose_messages,
    plan,
    report,
    start,
    sweep,
    wait,
)


def test_only_one_fusion_takes_a_request_and_none_before_its_branches_have_reported(planned: Script) -> None:
    planned >> join() << None >> report("bm25") << "counted" >> join() << None
    planned >> report("vector") << "joined" >> join() << {"bm25", "vector"} >> join() << None


def test_from_join_at_on_the_fusion_takes_the_reports_that_have_come(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", limit_ms=50) >> report("bm25") >> wait(49) >> join() << None
    script >> wait(1)
    snapshot = script.ledger.join("it")
    assert snapshot is not None
    assert (list(snapshot.branch_results), snapshot.state) == (["bm25"], "planned")


def test_a_request_whose_branches_never_begin_is_joined_without_them(script: Script) -> None:
    script >> accept(timeout_s=1) >> plan("bm25", "vector", resend_ms=2_000)
    # The deadline less the fusion reserve.
    script >> sweep(840) << {840: ["fuse"]} >> start("bm25") << 0 >> join() << set()
    script >> finish("failed") << 840


def test_a_report_that_comes_while_the_callback_waits_is_in_the_snapshot(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", limit_ms=50) >> report("bm25") >> sweep(50) << {50: ["fuse"]}
    script >> wait(20) >> report("vector") << "joined" >> join() << {"bm25", "vector"}


def test_a_part_whose_message_was_lost_is_sent_again_and_answers(script: Script) -> None:
    script >> accept() >> plan("bm25", "vector", resend_ms=50) >> report("bm25") >> lose_messages("vector")
    script >> sweep(50) << {50: ["part vector"]} >> start("vector") << 10_000 - 160 - 50
    script >> report("vector") << "joined" >> join() << {"bm25", "vector"} >> finish() << 50
