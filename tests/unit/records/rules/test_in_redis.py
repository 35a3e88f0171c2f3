"""What a planner remembers of the rules in Redis."""

from __future__ import annotations

import pytest
from redis.exceptions import ConnectionError as RedisAway

from records.rules.matching import READ_EVERY_S, PublishedRules


class OneHash:
    """The part of a Redis that a planner reads."""

    def __init__(self) -> None:
        self.text: bytes | None = None
        self.is_away = False
        self.reads = 0

    def hget(self, _: str, namespace: str) -> bytes | None:
        self.reads += 1
        if self.is_away:
            raise RedisAway("away")
        return self.text


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def written(version: int) -> bytes:
    return b'{"version": %d, "rules": {"block": {"b": {"documents": ["old"]}}}}' % version


def test_rules_are_read_at_most_once_a_second_and_a_change_is_seen_then() -> None:
    redis, clock = OneHash(), Clock()
    rules = PublishedRules(redis, clock=clock)  # type: ignore[arg-type]
    assert rules.of("law") is None
    redis.text = written(1)
    assert rules.of("law") is None
    assert redis.reads == 1
    clock.now_s += READ_EVERY_S
    matcher = rules.of("law")
    assert matcher is not None
    assert matcher.version == 1
    assert rules.of("law") is matcher
    clock.now_s += READ_EVERY_S
    assert rules.of("law") is matcher, "the same text is not read again"
    redis.text = None
    clock.now_s += READ_EVERY_S
    assert rules.of("law") is None


@pytest.mark.parametrize(
    "broken", [b"not json", b"{}", b'{"version": 2, "rules": {"of a newer version": 1}}']
)
def test_the_last_rules_hold_while_redis_is_away_or_says_nonsense(broken: bytes) -> None:
    redis, clock = OneHash(), Clock()
    rules = PublishedRules(redis, clock=clock)  # type: ignore[arg-type]
    redis.text = written(1)
    matcher = rules.of("law")
    assert matcher is not None
    assert rules.warnings("law") == ()
    redis.is_away = True
    clock.now_s += READ_EVERY_S
    assert rules.of("law") is matcher
    assert rules.warnings("law") == ("rules: not read; those that were read before hold",)
    redis.is_away, redis.text = False, broken
    clock.now_s += READ_EVERY_S
    assert rules.of("law") is matcher


def test_a_process_remembers_a_bounded_number_of_namespaces() -> None:
    rules = PublishedRules(OneHash(), clock=Clock())  # type: ignore[arg-type]
    for number in range(1_100):
        rules.of(f"invented {number}")
    assert len(rules._known) == 1_000
