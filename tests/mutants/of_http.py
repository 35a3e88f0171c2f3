"""Promises to callers of searches over HTTP."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Promise

_SEARCHES = "tests/integration/api/test_searches.py"
_EVENTS = "tests/integration/api/test_search_events.py"
_BUSY = "tests/integration/api/test_busy_and_broken.py"

PROMISES = (
    Promise(
        "A call that waits over HTTP keeps no other call waiting",
        f"{_BUSY}::test_calls_that_wait_keep_no_other_call_waiting",
    ),
    Mutant(
        "A search whose caller hangs up is cancelled",
        "api/disconnects.py",
        "            work.cancel()",
        "            pass",
        f"{_SEARCHES}::test_a_search_whose_caller_goes_away_is_cancelled_unless_the_caller_can_come_back",
    ),
    Mutant(
        "A caller with an `Idempotency-Key` may hang up, and gets its answer later",
        "api/searches.py",
        "    return await asyncio.shield(own.asking.ask(request))",
        "    return await own.asking.ask(request)",
        f"{_SEARCHES}::test_a_search_whose_caller_goes_away_is_cancelled_unless_the_caller_can_come_back",
    ),
    Mutant(
        "An `Idempotency-Key` belongs to the API key that sent it",
        "api/idempotency.py",
        "(grant.key_id, route,",
        "(grant.tenant, route,",
        f"{_SEARCHES}::test_an_idempotency_key_makes_a_call_once",
    ),
    Mutant(
        "Calls with one `Idempotency-Key` that race are one search",
        "api/idempotency.py",
        "    if key is None:",
        "    if key:",
        f"{_SEARCHES}::test_calls_with_one_idempotency_key_that_race_are_one_search",
    ),
    Mutant(
        "A reader of events that lost its connection goes on after the last event that it has",
        "api/search_events.py",
        "after=last_event_id)",
        'after="")',
        f"{_EVENTS}::test_a_reader_goes_on_after_the_last_event_that_it_has",
    ),
    Mutant(
        "A body over the limit is refused while it arrives",
        "api/app.py",
        "        max_body_size=LARGEST_BODY,",
        "",
        f"{_SEARCHES}::test_a_large_body_is_refused_while_it_arrives",
    ),
    Mutant(
        "No key can send a task to another application with a search",
        "api/searches.py",
        "    for name in NOT_OVER_HTTP.keys() & body.model_fields_set:",
        "    for name in ():",
        f"{_SEARCHES}::test_a_wrong_field_is_named",
    ),
    Mutant(
        "A key has no more calls a minute than it may have",
        "api/limits.py",
        "    if used > quota:",
        "    if used > 2 * quota:",
        f"{_SEARCHES}::test_a_key_is_refused_when_its_calls_of_the_minute_are_used_up",
    ),
    Promise(
        "Without Redis every call is a problem that says that it is worth repeating",
        f"{_BUSY}::test_without_redis_a_search_is_a_problem_that_is_worth_repeating",
    ),
)
