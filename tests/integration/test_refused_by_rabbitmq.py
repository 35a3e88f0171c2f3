"""A client whose login RabbitMQ refuses."""

from __future__ import annotations

import logging

import pytest
from chorale_client import Chorale

from tests.support.servers.redis_server import RedisServer
from tests.support.servers.services import need
from tests.support.waiting import until


def test_a_question_is_accepted_and_the_log_says_why_it_was_not_published(
    own_redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = need("rabbitmq", "it is the broker that refuses the login")
    refused = Chorale(own_redis_server.url, broker_url=f"amqp://nobody:opensesame@{url.rpartition('@')[2]}")
    with caplog.at_level(logging.WARNING, "chorale_client"):
        request_id = refused.send("bread", timeout_s=20)  # so long the client tries to publish
        until(lambda: caplog.messages)
    assert caplog.messages[0].startswith(f"not published, the sweeper will send it: {request_id}: ")
    assert "ACCESS_REFUSED" in caplog.messages[0]
    assert "opensesame" not in caplog.text
