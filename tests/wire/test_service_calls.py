"""Calls to the sweeper process as clients of version 1 send them, and the replies that they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chorale_client.jobs.job import Job
from chorale_client.keys import JOB_COMMANDS, JOB_REPLY
from redis import Redis

import tasks.service_calls
from config.settings import Settings
from records.database import upgrade
from tasks.service_calls import ServiceCalls
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.servers.redis_server import RedisServer

STORED = Path(__file__).parent / "stored_messages" / "v1" / "service_calls.json"


def test_calls_of_version_1_are_done_and_replied_to(
    redis_client: Redis, redis_server: RedisServer, tmp_path: Path
) -> None:
    resources = Resources(Settings(home=tmp_path), load_pipeline(None), redis_server.url)
    upgrade(resources.settings.audit_database_url)
    sweeper = ServiceCalls(resources, lambda: None)
    stored = json.loads(STORED.read_text("utf-8"))
    for command in stored:
        redis_client.lpush(JOB_COMMANDS, json.dumps(command))
        assert sweeper.do_next()
    key = JOB_REPLY + stored[0]["caller"]
    replies: dict[int, Any] = {}
    for raw in redis_client.lrange(key, 0, -1):
        reply = json.loads(raw)
        replies[reply.pop("number")] = reply
    done = {"result": None}
    assert [replies[number] for number in (1, 2, 3)] == [done, done, done]
    assert replies[4] == {"result": {"lines": [], "is_ended": False}}
    assert (replies[5]["error"], "absent" in replies[5]["message"]) == ("no_such_job", True)
    job = Job.model_validate(replies[6]["result"])
    assert (job.state, job.total, job.name, job.tenant, job.weight) == ("cancelling", 2, "weekly", "ada", 2.0)
    assert job.counts["refused"] == 1
    assert replies[7] == {"result": [replies[6]["result"]]}
    resources.jobs.close()
    resources.redis.connection_pool.disconnect()


def test_a_call_that_fails_unexpectedly_is_replied_to_with_a_sentence(
    redis_client: Redis, redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise AssertionError

    monkeypatch.setitem(tasks.service_calls.CALLS, "fail", fails)
    resources = Resources(Settings(home=tmp_path), load_pipeline(None), redis_server.url)
    call: dict[str, Any] = {"do": "fail", "caller": "0" * 32, "number": 1, "given": {}}
    redis_client.lpush(JOB_COMMANDS, json.dumps(call))
    assert ServiceCalls(resources, lambda: None).do_next()
    reply = json.loads(redis_client.lrange(JOB_REPLY + call["caller"], 0, -1)[0])
    sentence = "an unexpected error; the log of the sweeper has it"
    assert reply == {"number": 1, "error": "failed", "message": sentence}
    resources.redis.connection_pool.disconnect()
