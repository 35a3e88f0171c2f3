"""Rules in SQL on each kind of database, and their copy in Redis."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from chorale_client.keys import RULES
from pydantic_core import from_json
from redis import Redis
from sqlalchemy import Engine

from models.rules import Rules, read_rules
from records.database import open_database
from records.rules import store as rule_store
from records.rules.store import RuleCopying, RulesChanged, RuleStore, RulesUnavailable, copy_rules
from tests.support.waiting import until


@pytest.fixture
def store(engine: Engine) -> RuleStore:
    return RuleStore(engine)


def blocking(name: str, *documents: str) -> Callable[[Rules], Rules]:
    return lambda before: read_rules({"block": {**before.block, name: {"documents": documents}}})


def copied(redis_client: Redis) -> dict[str, Any]:
    copies: Any = redis_client.hgetall(RULES)
    return {name.decode(): from_json(text) for name, text in copies.items()}


def test_every_change_is_kept_and_the_last_one_holds(
    store: RuleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (store.current("law").version, store.current("law").rules) == (0, Rules())
    # The order of rules and documents is theirs, whatever the database sorts.
    store.change("law", blocking("z", "b", "a"), by="ann")
    after = store.change("law", blocking("a", "c"), by="bob")
    store.change("other", blocking("x", "y"), by="ann")
    assert store.current("law") == after
    assert after.rules.names == ["z", "a"]
    assert after.rules.block["z"].documents == ("b", "a")
    assert [(one.version, one.changed_by) for one in store.history("law", 5)] == [(2, "bob"), (1, "ann")]
    assert {(one.namespace, one.version) for one in store.all_current()} == {("law", 2), ("other", 1)}
    turned = store.change("law", lambda _: blocking("z", "b", "a")(blocking("a", "c")(Rules())), by="ann")
    assert (turned.version, store.current("law").rules.names) == (3, ["a", "z"]), "another order is a change"
    monkeypatch.setattr(rule_store, "MAX_VERSIONS", 3)
    store.change("law", blocking("d", "e"), by="ann")
    assert [one.version for one in store.history("law", 100)] == [4, 3, 2]


def test_the_same_rules_are_no_change_and_another_version_is_refused(store: RuleStore) -> None:
    store.change("law", blocking("a", "b"), by="ann")
    assert store.change("law", blocking("a", "b"), by="bob").changed_by == "ann"
    assert store.change("law", blocking("a", "b"), by="bob", expected=7).version == 1
    with pytest.raises(RulesChanged, match="they have version 1"):
        store.change("law", blocking("c", "d"), by="bob", expected=0)
    assert store.change("law", blocking("c", "d"), by="bob", expected=1).version == 2


def test_changes_at_the_same_time_are_all_kept(store: RuleStore) -> None:
    def add(number: int) -> None:
        for _ in range(20):
            try:
                store.change("law", blocking(f"rule{number}", "d"), by=f"writer {number}")
                return
            except RulesUnavailable:
                continue  # locked, or overtaken five times
        raise AssertionError("never written")

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(add, range(8)))
    assert sorted(store.current("law").rules.names) == [f"rule{number}" for number in range(8)]
    assert [one.version for one in store.history("law", 100)] == list(range(8, 0, -1))


def test_the_copy_in_redis_becomes_equal_to_the_database(store: RuleStore, redis_client: Redis) -> None:
    store.change("law", blocking("a", "b"), by="ann")
    copy_rules(redis_client, store, "law")
    store.change("other", blocking("c", "d"), by="ann")
    copy_rules(redis_client, store, "nothing")
    assert copied(redis_client) == {"law": {"version": 1, "rules": {"block": {"a": {"documents": ["b"]}}}}}
    # A newer copy than the database, as after a restore, and a namespace that the database does not know.
    redis_client.hset(RULES, mapping={"law": '{"version": 9, "rules": {}}', "gone": "x"})
    copy_rules(redis_client, store)
    assert {name: one["version"] for name, one in copied(redis_client).items()} == {"law": 1, "other": 1}


def test_a_copy_that_is_made_meanwhile_is_not_overwritten_by_an_older_one(
    store: RuleStore, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.change("law", blocking("a", "b"), by="ann")
    read = store.current
    overtaken: list[bool] = []

    def slow(namespace: str) -> Any:
        rules = read(namespace)
        if not overtaken:
            overtaken.append(True)
            store.change("law", blocking("a", "c"), by="bob")
            copy_rules(redis_client, store, "law")
        return rules

    monkeypatch.setattr(store, "current", slow)
    copy_rules(redis_client, store, "law")
    assert copied(redis_client)["law"]["version"] == 2


def test_a_redis_that_lost_its_rules_gets_them_again(store: RuleStore, redis_client: Redis) -> None:
    store.change("law", blocking("a", "b"), by="ann")
    stop = threading.Event()
    duty = threading.Thread(
        target=RuleCopying(redis_client, store, lambda: None, every_s=0.05).run, args=(stop,)
    )
    duty.start()
    try:
        until(lambda: "law" in copied(redis_client))
        redis_client.delete(RULES)
        until(lambda: "law" in copied(redis_client))
    finally:
        stop.set()
        duty.join()


def test_a_database_that_is_away_is_named_as_unavailable(tmp_path: Any) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/missing.db", must_exist=True)
    with pytest.raises(RulesUnavailable, match="the database of the rules cannot be used"):
        RuleStore(engine).current("law")
    engine.dispose()
