"""Messages that the sweeper sends again, since the first ones came to nothing or take long."""

from __future__ import annotations

from ledger.protocol import Action
from ledger.redis import RedisLedger
from models.plan import Plan
from tasks.request.fanout import Fanout


def send_again(ledger: RedisLedger, fanout: Fanout, action: Action) -> None:
    match action.do:
        case "retrieve":
            fanout.send_retrieve(action.request_id)
        case "part":
            send_branch_again(ledger, fanout, action, attempt=1)
        case "hedge":
            send_branch_again(ledger, fanout, action, attempt=2)
        case "fuse":
            fanout.send_fuse(action.request_id)


def send_branch_again(ledger: RedisLedger, fanout: Fanout, action: Action, *, attempt: int) -> None:
    """Send the message of one branch again.  Attempt 2 is a hedge: whichever attempt answers first counts."""
    entry = ledger.load(action.request_id)
    if entry is not None and entry.plan is not None:
        for branch in Plan.model_validate_json(entry.plan).branches:
            if branch.name == action.branch:
                fanout.send_part(action.request_id, branch, attempt=attempt)
