"""The clock of the scripts is the server's: no caller can choose the time.  Other tests bring their own clock."""

from __future__ import annotations

import re
from pathlib import Path

from chorale_client import scripts as callers_scripts
from chorale_client.keys import SWEEPER
from chorale_client.ledger import CallersLedger
from chorale_client.scripts import Scripts
from redis import Redis

from tests.support.ledger.requests import a_request
from tests.support.ledger.single_steps import SingleSteps
from tests.support.ledger.stepped_ledger import EXPIRIES, NOW
from tests.support.waiting import until

FOLDERS = [Path(callers_scripts.__file__).parent, Path("ledger/scripts")]


def test_now_ms_is_the_servers_time_whatever_keys_arguments_and_clients_say(
    redis_client: Redis, tmp_path: Path
) -> None:
    (tmp_path / "now.lua").write_text("return string.format('%d', now_ms())")
    redis_client.mset({NOW: 1, "now": 1, "TIME": 1})
    redis_client.zadd(EXPIRIES, {"now": 1})
    before_s, _ = redis_client.time()
    now_ms = int(Scripts(redis_client, tmp_path).run("now", [NOW, "now"], [1, "now_ms=1"]))
    after_s, _ = redis_client.time()
    assert int(before_s) * 1000 <= now_ms < (int(after_s) + 1) * 1000


def test_no_script_defines_now_ms_again_or_gets_the_time_from_a_caller() -> None:
    for folder in FOLDERS:
        for file in folder.glob("*.lua"):
            text = re.sub("--.*", "", file.read_text())
            own = 1 if file.name == "prelude.lua" else 0
            assert len(re.findall(r"function now_ms|now_ms\s*=", text)) == own, file.name
            assert not re.search(r"now(_ms)?\s*=\s*(tonumber\()?(ARGV|KEYS)", text), file.name


def test_a_request_ends_by_the_servers_clock(redis_client: Redis) -> None:
    accepted = CallersLedger(redis_client).accept(a_request(timeout_s=0.05))
    ledger = SingleSteps(redis_client)
    entry = until(lambda: ledger.join(accepted.request_id, force=bool(ledger.sweep("sweeper").actions)))
    assert entry is not None
    # A fifth of the 50 ms is kept for the end.
    assert entry.now_ms >= accepted.deadline_ms - 10


def test_the_lease_of_a_sweeper_is_kept_by_the_server(redis_client: Redis) -> None:
    ledger = SingleSteps(redis_client)
    # The lease is over after 80 ms, perhaps before it is made to last.
    until(lambda: ledger.sweep("first").is_acting and redis_client.persist(SWEEPER))
    assert not ledger.sweep("second").is_acting
    redis_client.delete(SWEEPER)
    assert ledger.sweep("second").is_acting
