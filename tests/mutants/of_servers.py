"""Mutants of servers, stores, clocks and models."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "no caller waits for Redis beyond its own time",
        "client/chorale_client/time_limit.py",
        "                self._sock.settimeout(limit.shorten(self.socket_timeout))",
        "                self._sock.settimeout(self.socket_timeout)",
        "tests/faults/test_redis_connections.py::test_a_caller_who_never_heard_anything_is_told_so_in_its_own_time",
    ),
    Mutant(
        "a caller whose connection is cut gets its answer",
        "client/chorale_client/client.py",
        "                can_pass = isinstance(error, _PASSING)",
        "                can_pass = False",
        "tests/faults/test_redis_connections.py::test_a_caller_whose_connection_is_cut_in_the_middle_gets_its_answer",
    ),
    Mutant(
        "workers come back within a moment of the server",
        "tasks/celery_surface/reconnecting.py",
        "FIRST_S, STEP_S, LONGEST_S = 0.1, 0.1, 1.0",
        "FIRST_S, STEP_S, LONGEST_S = 30.0, 0.1, 30.0",
        "tests/faults/test_redis_connections.py::test_workers_that_are_turned_away_for_a_while_come_back",
    ),
    Mutant(
        "what a branch found while Redis was away is reported",
        "tasks/celery_surface/result_backend.py",
        "                if time.monotonic() > until_s:",
        "                if until_s:",
        "tests/faults/test_redis_faults.py::test_what_a_branch_found_while_redis_was_away_is_reported_when_it_is_back",
    ),
    Mutant(
        "a full Redis is swept",
        "ledger/scripts/sweep.lua",
        "redis.call('DEL', KEYS[2])",
        "",
        "tests/faults/test_redis_faults.py::test_a_full_redis_ends_what_it_has_and_refuses_the_rest",
    ),
    Mutant(
        "a full Redis joins what it has",
        "ledger/scripts/join.lua",
        "redis.call('ZREM', KEYS[2], id)",
        "",
        "tests/faults/test_redis_faults.py::test_a_full_redis_ends_what_it_has_and_refuses_the_rest",
    ),
    Mutant(
        "answers are cached again after Redis was emptied",
        "assembly/resources.py",
        "                self.redis.set(GENERATION + namespace, own, nx=True)",
        "                pass",
        "tests/faults/test_redis_faults.py::test_after_an_emptied_redis_answers_are_cached_again",
    ),
    Mutant(
        "no row is written to a removed database",
        "audit/database.py",
        "        if before != _identity(path):",
        "        if before is False:",
        "tests/faults/test_audit_database_faults.py::test_a_database_that_cannot_be_written_costs_no_answer_and_no_row",
    ),
    Mutant(
        "no empty database is put in the place of one that is gone",
        "audit/database.py",
        "        if must_exist and not path.exists():",
        "        if must_exist is None:",
        "tests/faults/test_audit_database_faults.py::test_a_database_that_cannot_be_written_costs_no_answer_and_no_row",
    ),
    Mutant(
        "a lexical index that was written to is not searched",
        "search/embedded/segment_files.py",
        "            if now is not None and now[0] == before[0] and now != before:",
        "            if now is None and now != now:",
        "tests/faults/test_store_faults.py::test_a_lexical_index_damaged_under_the_workers_costs_the_branches_that_read_it",
    ),
    Mutant(
        "a corpus made anew is what is searched",
        "search/embedded/store.py",
        "                self._readers.clear()\n                self._read_of",
        "                self._read_of",
        "tests/faults/test_store_faults.py::test_a_corpus_made_anew_is_what_the_workers_search_and_no_cached_answer_outlives_the_old_one",
    ),
    Mutant(
        "no cached answer outlives the corpus it came from",
        "assembly/resources.py",
        "            store.raise_generation(namespace, told + 1)",
        "            pass",
        "tests/faults/test_store_faults.py::test_a_corpus_made_anew_is_what_the_workers_search_and_no_cached_answer_outlives_the_old_one",
    ),
    Mutant(
        "a clock set back leaves no lease behind",
        "ledger/scripts/sweep.lua",
        " and redis.call('PTTL', KEYS[2]) <= tonumber(ARGV[3])",
        "",
        "tests/faults/test_clocks.py::test_a_sweeper_that_died_before_the_clock_was_set_back_keeps_no_other_from_sweeping",
    ),
    Mutant(
        "nothing is cached without the mark of the model",
        "tasks/request/retrieve.py",
        "        models, generation = {}, None",
        "        models, generation = {}, resources.generation(request.namespace)",
        "tests/faults/test_models.py::test_requests_are_planned_where_the_planner_lacks_the_model",
    ),
)
