"""The failure of a decisive branch ends the wait for the others."""

from __future__ import annotations

import pytest
from chorale_client.protocol_constants import ProtocolConstants

from tests.support.ledger.script import Script, accept, join, lose_messages, plan, queue, report, start, sweep


@pytest.fixture
def strict(script: Script) -> Script:
    """A request with three branches that fails without `vector`."""
    return script >> accept() >> plan("bm25", "hyde", "vector", decisive=["vector"])


def test_the_failure_of_a_decisive_branch_pushes_the_callback_at_once(strict: Script) -> None:
    strict >> report("vector", "failed") << "joined" >> queue() << 1
    assert strict.entry().decided_by == "vector"
    strict >> join() << {"vector"}


def test_the_ledger_waits_for_no_branch_after_a_decisive_failure(strict: Script) -> None:
    strict >> start("hyde") << 10_000 - 160 >> report("vector", "failed")
    strict >> start("bm25") << None >> start("vector") << None
    strict >> report("hyde") << "closed" >> report("vector") << "closed"


def test_neither_another_branchs_failure_nor_a_decisive_answer_ends_the_request(strict: Script) -> None:
    strict >> report("bm25", "failed") << "counted" >> start("hyde") << 10_000 - 160 >> join() << None
    strict >> report("vector") << "counted" >> report("vector", "failed") << "duplicate" >> join() << None


def test_a_callback_that_was_lost_is_sent_again_and_no_part_is(
    strict: Script, protocol: ProtocolConstants
) -> None:
    every_ms = protocol.fuse_every_ms
    strict >> report("vector", "failed") >> lose_messages()
    strict >> sweep(2 * every_ms) << {every_ms: ["fuse"], 2 * every_ms: ["fuse"]}
