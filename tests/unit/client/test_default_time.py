"""A request that gives no time gets its configuration's."""

from __future__ import annotations

from chorale_client import make_request
from chorale_client.default_timeout import DefaultTimes, publish_timeouts, with_default_timeout
from chorale_client.keys import TIMEOUTS
from chorale_client.ledger import CallersLedger
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

DECLARED = {"late": 8.0, "": 5.0}


def test_a_request_without_a_time_limit_gets_that_of_its_configuration_and_an_explicit_one_stays() -> None:
    assert with_default_timeout(make_request("q", configuration="late"), DECLARED).timeout_s == 8
    assert with_default_timeout(make_request("q"), DECLARED).timeout_s == 5
    assert with_default_timeout(make_request("q", configuration="quick"), DECLARED).timeout_s == 2
    assert with_default_timeout(make_request("q", configuration="late", timeout_s=2), DECLARED).timeout_s == 2


def test_a_request_sent_again_under_another_default_is_equal() -> None:
    request = make_request("q", request_id="one")
    now, then = with_default_timeout(request, {"": 5.0}), with_default_timeout(request, {"": 8.0})
    assert (now.timeout_s, then.timeout_s) == (5, 8)
    assert now.written.fingerprint == then.written.fingerprint == request.written.fingerprint
    explicit = make_request("q", request_id="one", timeout_s=5)
    assert explicit.written.fingerprint != now.written.fingerprint


def test_a_caller_without_the_pipeline_reads_what_the_workers_published(redis_client: Redis) -> None:
    publish_timeouts(redis_client, {"gone": 3.0})
    publish_timeouts(redis_client, DECLARED)
    ledger, times = CallersLedger(redis_client), DefaultTimes()
    assert ledger.run_exchange(times.apply(make_request("q", configuration="late"))).timeout_s == 8
    assert ledger.run_exchange(times.apply(make_request("q", configuration="gone"))).timeout_s == 2
    redis_client.delete(TIMEOUTS)
    assert ledger.run_exchange(times.apply(make_request("q"))).timeout_s == 5
    publish_timeouts(redis_client, DECLARED)
    publish_timeouts(redis_client, {})
    assert redis_client.exists(TIMEOUTS) == 0


def test_without_redis_the_usual_time_limit_applies() -> None:
    nobody = Redis(port=9, retry=Retry(NoBackoff(), 0))
    assert CallersLedger(nobody).run_exchange(DefaultTimes().apply(make_request("q"))).timeout_s == 2
    nobody.close()
