"""Keys in SQL, on each kind of database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from models.errors import WrongDeclaration
from models.tables.installation import key_table
from records.keys.grant import Grant
from records.keys.key_store import KeyStore, KeysUnavailable, NoSuchKey, hash_of, parts_of
from tests.support.waiting import until

GRANT = Grant(
    key_id="",
    tenant="acme",
    namespaces=frozenset({"docs", "law"}),
    scopes=frozenset({"search:run", "search:read"}),
    filters={"customer": ["acme", 7]},
    max_top_k=50,
    max_depth=200,
    max_questions=4,
    max_timeout_s=2.5,
    requests_per_minute=600,
    weight=2.0,
)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(engine: Engine, database_url: str, clock: Clock) -> Iterator[Callable[[], KeyStore]]:
    """Opens stores as several processes would, on a database without keys."""
    stores: list[KeyStore] = []

    def open_one() -> KeyStore:
        stores.append(KeyStore(database_url, now_ms=clock, clock_s=lambda: clock.now_ms / 1000))
        return stores[-1]

    yield open_one
    for one in stores:
        one.close()


@pytest.fixture
def store(opened: Callable[[], KeyStore]) -> KeyStore:
    return opened()


def test_a_key_has_the_rights_that_it_was_made_with(store: KeyStore) -> None:
    made = store.create(GRANT, name="website")
    assert store.find(made.text) == replace(GRANT, key_id=made.key_id)
    every = store.create(Grant("", "", None, frozenset({"search:run"})))
    assert store.find(every.text) == Grant(every.key_id, every.key_id, None, frozenset({"search:run"}))


def test_a_wrong_an_unknown_an_expired_and_a_revoked_key_are_the_same(store: KeyStore, clock: Clock) -> None:
    made = store.create(GRANT, expires_at_ms=clock.now_ms + 10)
    other = store.create(GRANT)
    mixed = f"chorale_{made.key_id}_{(parts_of(other.text) or ('', ''))[1]}"
    unknown = f"chorale_{'a' * 12}_{'b' * 43}"
    for wrong in (mixed, unknown, made.text + "x", made.text.upper(), "", "Bearer", "chorale_\0"):
        assert store.find(wrong) is None
    clock.now_ms += 9
    assert store.find(made.text) is not None
    clock.now_ms += 1
    assert store.find(made.text) is None
    store.revoke(other.key_id)
    assert store.find(other.text) is None
    assert {key.state(clock.now_ms) for key in store.list(10)} == {"expired", "revoked"}
    with pytest.raises(NoSuchKey, match="no key 'nothing'"):
        store.revoke("nothing")


def test_secrets_are_compared_once_in_constant_time(store: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store.create(GRANT)
    compared: list[object] = []

    def compare_digest(*pair: str) -> bool:
        compared.append(pair)
        return False

    monkeypatch.setattr("records.keys.key_store.hmac.compare_digest", compare_digest)
    for text in (made.text, f"chorale_{made.key_id}_{'b' * 43}", f"chorale_{'a' * 12}_{'b' * 43}"):
        assert store.find(text) is None
    assert len(compared) == 3


def test_a_key_revoked_elsewhere_works_for_half_a_second_at_most(
    opened: Callable[[], KeyStore], clock: Clock
) -> None:
    api, console = opened(), opened()
    made = console.create(GRANT)
    assert api.find(made.text) is not None
    console.revoke(made.key_id)
    assert console.find(made.text) is None
    clock.now_ms += 499
    assert api.find(made.text) is not None
    clock.now_ms += 1
    assert api.find(made.text) is None


def test_a_key_costs_no_query_for_half_a_second(store: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store.create(GRANT)
    statements: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    store._note_use = lambda key: None  # type: ignore[method-assign]
    for _ in range(100):
        store.find(made.text)
    assert len(statements) <= 2
    monkeypatch.setattr("records.keys.key_store._CACHED_KEYS", 10)
    for number in range(50):
        store.find(f"chorale_{number:012}_{'b' * 43}")
    assert len(store._cached) == 10


def test_the_last_use_is_known_to_the_minute(store: KeyStore, clock: Clock) -> None:
    made = store.create(GRANT)

    def used_at_ms() -> int | None:
        return store.list(10)[0].used_at_ms

    assert used_at_ms() is None
    store.find("chorale_" + made.key_id + "_" + "b" * 43)
    store.find(made.text)
    until(lambda: used_at_ms() == clock.now_ms)
    first_ms = clock.now_ms
    clock.now_ms += 59_000
    store._cached.clear()
    store.find(made.text)
    store._writer.submit(lambda: None).result()
    assert used_at_ms() == first_ms
    clock.now_ms += 1_000
    store._cached.clear()
    store.find(made.text)
    until(lambda: used_at_ms() == clock.now_ms)


def test_the_secret_is_nowhere_in_the_database(store: KeyStore, engine: Engine) -> None:
    made = store.create(GRANT, name="website")
    secret = (parts_of(made.text) or ("", ""))[1]
    store.find(made.text)
    assert secret not in repr(store.list(10))
    assert made.hashed not in repr(store.list(10))
    with engine.connect() as connection:
        rows = repr(connection.execute(key_table.select()).all())
    assert secret not in rows
    assert hash_of(secret) in rows


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"scopes": frozenset({"search:run", "search"})}, "scope: no search; there are: search:run"),
        ({"scopes": frozenset()}, "scope: a key needs at least one of"),
        ({"tenant": "Acme"}, "a tenant is 1-63"),
        ({"namespaces": frozenset({"Docs"})}, "a namespace is 1-63"),
        ({"namespaces": frozenset()}, "namespace: a key needs at least one"),
        ({"filters": {"year": {"near": 3}}}, "filter 'year': no operator 'near'"),
        ({"max_top_k": 0}, "max_top_k: must be above 0 and below 1,000,000,000, not 0"),
        ({"requests_per_minute": 2**63}, "requests_per_minute: must be above 0 and below"),
        ({"weight": float("inf")}, "weight: must be above 0 and below"),
        ({"scopes": frozenset({"documents:write"})}, "could replace documents that it cannot see"),
        ({"scopes": frozenset({"admin"})}, "could replace documents that it cannot see"),
    ],
)
def test_wrong_rights_are_refused_by_name(store: KeyStore, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongDeclaration) as raised:
        store.create(replace(GRANT, **changed))
    assert says in str(raised.value)
    assert store.list(10) == []


def test_a_database_that_is_away_is_no_wrong_key(tmp_path: Path) -> None:
    store = KeyStore(f"sqlite:///{tmp_path}/nowhere.db")
    with pytest.raises(KeysUnavailable):
        store.find(f"chorale_{'a' * 12}_{'b' * 43}")
    assert store.find("no key at all") is None
    store.close()
