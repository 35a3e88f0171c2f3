"""The clock of the scripts is the server's, and their times are those of the protocol.  Other tests bring their own clock."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

from chorale_client import scripts as callers_scripts
from chorale_client.keys import SWEEPER
from chorale_client.ledger import CallersLedger
from chorale_client.protocol_constants import PROTOCOL
from chorale_client.scripts import Scripts
from redis import Redis

from tests.support.ledger.requests import a_request
from tests.support.ledger.single_steps import SingleSteps
from tests.support.ledger.stepped_ledger import EXPIRIES, NOW
from tests.support.waiting import until


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


SCRIPTS = {
    file.name: re.sub("--.*", "", file.read_text())
    for folder in (Path(callers_scripts.__file__).parent, Path("ledger/scripts"))
    for file in folder.glob("*.lua")
}
"""The scripts without their comments."""


def test_no_script_defines_now_ms_again_or_gets_the_time_from_a_caller() -> None:
    for name, text in SCRIPTS.items():
        own = 1 if name == "prelude.lua" else 0
        assert len(re.findall(r"function now_ms|now_ms\s*=", text)) == own, name
        assert not re.search(r"now(_ms)?\s*=\s*(tonumber\()?(ARGV|KEYS)", text), name


def test_the_scripts_use_every_constant_by_its_name() -> None:
    """The other tests of this folder run under longer times, too, and so fail where a script repeats a time."""
    used = {*re.findall(r"\w+", "\n".join(SCRIPTS.values()))}
    assert {name.upper() for name in asdict(PROTOCOL)} <= used


def test_a_request_ends_by_the_servers_clock(redis_client: Redis) -> None:
    accepted = CallersLedger(redis_client).accept(a_request(timeout_s=0.05))
    ledger = SingleSteps(redis_client)
    entry = until(lambda: ledger.join(accepted.request_id, force=bool(ledger.sweep("sweeper").actions)))
    assert entry is not None
    # A fifth of the 50 ms is kept for the end.
    assert entry.now_ms >= accepted.deadline_ms - 10


def test_a_lease_that_would_never_end_keeps_no_sweeper_from_acting(redis_client: Redis) -> None:
    ledger = SingleSteps(redis_client)
    # The lease may end before it is made to last.
    until(lambda: ledger.sweep("first").is_acting and redis_client.persist(SWEEPER))
    assert ledger.sweep("second").is_acting
