"""Promises of the synchronous and the asynchronous client."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LOOP = "tests/integration/client/test_async_chorale.py"
_THREADS = "tests/integration/client/test_chorale.py"
_CLIENT = "client/chorale_client/asynchronous/client.py"

PROMISES = (
    Mutant(
        "A task that is cancelled while it waits for an answer cancels its request",
        _CLIENT,
        "            if accepted is not None and accepted.is_new:",
        "            if False:",
        f"{_LOOP}::TestCancelledTasks::test_a_cancelled_task_cancels_its_request",
    ),
    Mutant(
        "A task that is cancelled leaves a request alone that another caller sent before",
        _CLIENT,
        "            if accepted is not None and accepted.is_new:",
        "            if accepted is not None:",
        f"{_LOOP}::TestCancelledTasks::test_the_request_of_another_caller_goes_on",
    ),
    Mutant(
        "A client that lost its connections finds the ends that it missed as soon as it has new ones",
        "client/chorale_client/asynchronous/announcements.py",
        "        self.has_to_look = self._is_asked",
        "        self.has_to_look = False",
        f"{_LOOP}::TestOneLoop::test_a_lost_connection_loses_no_end",
    ),
    Mutant(
        "10,000 calls of an asynchronous client leave no channel, no connection and no task behind",
        "client/chorale_client/asynchronous/announcements.py",
        "                del self._listeners[channel]",
        "                pass",
        f"{_LOOP}::TestOneLoop::test_calls_leave_no_channel_no_connection_and_no_task[500]",
        shown_by=f"{_LOOP}::TestOneLoop::test_calls_leave_no_channel_no_connection_and_no_task",
    ),
    Mutant(
        "Requests of one moment go out in one round trip; each keeps its id, deadline, status and audit row",
        "client/chorale_client/asynchronous/commands.py",
        "taken, self._asked = self._asked[:MOST_TOGETHER], self._asked[MOST_TOGETHER:]",
        "taken, self._asked = self._asked[:1], self._asked[1:]",
        f"{_LOOP}::TestOneRoundTrip::test_requests_of_one_moment_are_64_requests_in_one_round_trip",
    ),
    Mutant(
        "A request is accepted and sent to the planners in one step, and a known request is not sent again",
        "client/chorale_client/scripts/accept_and_send.lua",
        "if answer[1] == 'accepted' then",
        "if true then",
        f"{_THREADS}::TestAsking::test_the_planners_message_goes_with_the_acceptance",
    ),
    Mutant(
        "A reader of events goes on in any process after the last event that it has, without gaps or repetition",
        "client/chorale_client/events.py",
        "            if status and branch not in self._told:",
        "            if status:",
        f"{_THREADS}::TestEvents::test_any_process_goes_on_after_the_last_event_of_another",
    ),
)
