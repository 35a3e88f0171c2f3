"""Which errors of Redis pass by themselves."""

from __future__ import annotations

import pytest
import redis
from redis._parsers.base import BaseParser

from config.redis_client import explained, is_transient

TRANSIENT = [
    "READONLY You can't write against a read only replica.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "LOADING Redis is loading the dataset in memory",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOREPLICAS Not enough good replicas to write.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "READONLY You can't write against a read only replica. script: f0, on @user_script:3.",
    "ERR user_script:54: READONLY You can't write against a read only replica. script: f0, on @user_script:54.",
    # Redis 6.2
    "ERR Error running script (call to f_f0): @user_script:3: @user_script: 3: -READONLY You can't write.",
]
LASTING = [
    "NOPERM User worker has no permissions to run the 'brpop' command",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "NOSCRIPT No matching script. Please use EVAL.",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "ERR unknown command 'BUSYBODY'",
    "ERR user_script:1: Script attempted to access nonexistent global variable 'OOM' script: f0",
    "BUSYGROUP Consumer Group name already exists",
]


@pytest.mark.parametrize("reply", TRANSIENT)
def test_a_reply_that_says_that_redis_cannot_serve_now_passes(reply: str) -> None:
    error = BaseParser.parse_error(reply)
    assert is_transient(error)
    pipeline_error = redis.ResponseError(f"Command # 2 (LPUSH q x) of pipeline caused error: {reply}")
    assert is_transient(pipeline_error)


@pytest.mark.parametrize("reply", LASTING)
def test_a_reply_that_a_wait_does_not_heal_lasts(reply: str) -> None:
    assert not is_transient(BaseParser.parse_error(reply))


@pytest.mark.parametrize("error", [redis.ConnectionError("closed"), redis.TimeoutError("late"), OSError()])
def test_a_redis_that_is_away_passes(error: Exception) -> None:
    assert is_transient(error)


def test_a_bug_lasts() -> None:
    assert not is_transient(ValueError("MISCONF"))


def test_the_sentence_on_a_passing_reply_says_to_wait() -> None:
    assert str(explained(redis.ReadOnlyError("You can't write against a read only replica."))) == (
        "Redis cannot serve now (You can't write against a read only replica): wait, or see its log"
    )
