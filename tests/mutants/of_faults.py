"""What is left of a fault: the answer of whoever asks later, the branches that had nothing to do with it, the cache."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FAULTS, _TASKS = "tests/faults", "tests/integration/tasks"

MUTANTS = (
    Mutant(
        "what connecting took is off a request's time",
        "client/chorale_client/client.py",
        "self._enqueue(request, ends_at_s - GRACE_S - time.monotonic())",
        "self._enqueue(request)",
        "tests/faults/test_redis_connections.py::test_a_caller_whose_connecting_takes_long_still_gets_what_was_found",
    ),
    Mutant(
        "Celery reads what the end says",
        "client/chorale_client/scripts/prelude.lua",
        """'{"status":"SUCCESS",""",
        """'{"status":"STARTED",""",
        f"{_TASKS}/test_whole_pipeline.py::test_async_result_agrees_before_and_after_the_end",
    ),
    Mutant(
        "an answer expires",
        "client/chorale_client/scripts/prelude.lua",
        ", 'PX', entry.answer_ttl)",
        ")",
        f"{_TASKS}/test_whole_pipeline.py::test_nothing_but_the_answer_is_left_of_an_ended_request",
    ),
    Mutant(
        "whoever goes on leaves nothing behind",
        "ledger/scripts/report.lua",
        "if e[1] ~= 'planned' or not e[2] then return 'closed' end",
        "if e[1] and e[1] ~= 'planned' then return 'closed' end",
        f"{_FAULTS}/test_hung_processes.py::"
        "test_of_a_request_that_everybody_hung_upon_nothing_is_left_after_its_time_to_live",
    ),
    Mutant(
        "an accepted request is known to the sweeper",
        "client/chorale_client/scripts/accept.lua",
        "redis.call('ZADD', KEYS[3], moment, ARGV[1])",
        "",
        f"{_FAULTS}/test_killed_processes.py::"
        "test_whoever_asks_for_the_answer_of_a_killed_caller_gets_the_whole_one",
    ),
    Mutant(
        "the outbox is read from its beginning",
        "audit/drainer.py",
        '{OUTBOX: "0-0"}',
        '{OUTBOX: "$"}',
        "tests/integration/audit/test_drainer_faults.py::test_killed_anywhere_each_request_is_written_once",
    ),
    Mutant(
        "a caller ends what Redis lost",
        "client/chorale_client/scripts/finish_failed.lua",
        "return write_end(ARGV[1], { request",
        "local _ = result and write_end(ARGV[1], { request",
        f"{_FAULTS}/test_redis_faults.py::test_an_emptied_redis_is_ended_by_the_caller_who_waits",
    ),
    Mutant(
        "a rebuild makes room",
        "tasks/indexing/namespace_writer.py",
        "    kept = store.make_room() if isinstance(store, MakesRoom) else None",
        "    kept = None",
        f"{_FAULTS}/test_store_faults.py::test_the_command_mends_a_corpus_that_cannot_be_read",
    ),
    Mutant(
        "a branch that nobody took is named",
        "tasks/request/ending.py",
        "    return Degradation(where, Reason.NOT_STARTED,",
        "    return Degradation(where, Reason.TIMEOUT,",
        f"{_TASKS}/test_something_is_missing.py::test_a_queue_that_nobody_serves_is_named",
    ),
    Mutant(
        "an answer replaces a failure",
        "ledger/scripts/report.lua",
        "  if e[3] ~= 'failed' or status == 'failed' then return 'duplicate' end",
        "  if true then return 'duplicate' end",
        "tests/integration/ledger/test_scripts.py::TestReporting::"
        "test_an_answer_replaces_a_failure_and_never_the_other_way_round",
    ),
    Mutant(
        "a lost message is sent again",
        "ledger/scripts/sweep.lua",
        "and resent < 2 then",
        "and resent < 0 then",
        f"{_TASKS}/test_something_is_missing.py::test_a_part_whose_message_was_lost_is_sent_again",
    ),
    Mutant(
        "the sweeper fuses what there is",
        "tasks/sweeping/sweeper.py",
        '    "end": Sweeper._end,',
        '    "end": Sweeper._pushed,',
        f"{_FAULTS}/test_killed_processes.py::test_a_killed_fusion_worker_costs_no_hit",
    ),
    Mutant(
        "a fusion that goes on ends nothing again",
        "client/chorale_client/scripts/prelude.lua",
        "  if not entry.state then return nil end",
        "  if not entry.state then entry = { head = '\"a\":1', accepted_at = now, fingerprint = '', request = '', "
        "answer_ttl = 1000 } end",
        f"{_FAULTS}/test_hung_processes.py::test_a_hung_fusion_worker_costs_no_hit",
    ),
    Mutant(
        "the last report calls the callback",
        "ledger/scripts/report.lua",
        "redis.call('LPUSH', c[1], c[2])",
        "",
        f"{_TASKS}/test_whole_pipeline.py::test_for_a_hundred_healthy_requests_the_chord_itself_called_the_callback",
    ),
    Mutant(
        "a lost process is named at once",
        "tasks/celery_surface/result_backend.py",
        "            if is_part:",
        "            if False:",
        f"{_FAULTS}/test_what_celery_loses.py::test_a_part_whose_process_is_lost_is_named_at_once",
    ),
    Mutant(
        "another content counts no more",
        "ledger/scripts/report.lua",
        "  if e[3] ~= 'failed' or status == 'failed' then return 'duplicate' end",
        "",
        f"{_FAULTS}/test_deliveries.py::test_a_part_delivered_again_with_another_content_counts_once",
    ),
    Mutant(
        "what comes after the end is turned away",
        "ledger/scripts/start.lua",
        "if e[1] ~= 'planned' or not e[2] or (e[4] and e[4] ~= 'failed') or e[8] then return false end",
        "redis.call('HSET', KEYS[1], 'state', e[1] or 'planned')",
        f"{_FAULTS}/test_deliveries.py::test_a_part_that_comes_after_the_end_changes_nothing",
    ),
    Mutant(
        "an unreadable envelope is a failed branch",
        "models/envelope.py",
        "        except (ValueError, KeyError, TypeError, AttributeError) as error:",
        "        except ZeroDivisionError as error:",
        f"{_FAULTS}/test_deliveries.py::test_an_envelope_that_nobody_can_read_costs_only_its_branch",
    ),
    Mutant(
        "the namespace is part of the key",
        "cache/key.py",
        "    same = {**question,",
        '    namespace = ""\n    same = {**question,',
        f"{_TASKS}/test_asked_before.py::test_an_answer_is_never_given_in_another_namespace",
    ),
    Mutant(
        "a worker told to stop finishes",
        "tasks/celery_surface/stopping.py",
        "            signal.signal(number, finish)",
        "            signal.signal(number, _interrupt)",
        f"{_FAULTS}/test_deploys.py::test_a_worker_told_to_stop_finishes_the_part_that_runs",
    ),
    Mutant(
        "no answer of a corpus that is gone is served",
        "assembly/resources.py",
        "            if told >= agreed if agreed is not None else not self._has_corpus:",
        "            if True:",
        "tests/integration/cli/commands/test_restored_over_a_newer_redis.py::"
        "test_no_answer_of_the_newer_corpus_is_served",
    ),
    Mutant(
        "an older corpus rises beyond what was cached",
        "tasks/worker/warming.py",
        "                _rise_beyond(resources, state.name)",
        "                pass",
        "tests/integration/cli/commands/test_restored_over_a_newer_redis.py::"
        "test_no_answer_of_the_newer_corpus_is_served",
    ),
)
