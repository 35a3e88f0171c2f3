"""Faults, each in one function, that break what docs/evidence/guarantees.md promises (`make mutants`).

Every promise of the page has at least one.  A test that passes all the same guards nothing.
"""

from __future__ import annotations

from tests.mutants.breaking import Mutant

_LEDGER = "tests/integration/ledger"
_ANSWER_CACHE = "tests/integration/tasks/test_answer_cache.py"
_TOGETHER = "tests/integration/tasks/test_searched_together.py"
_SHADOWS = "tests/integration/tasks/test_shadows.py"
_JOBS = "tests/integration/records/jobs/test_store.py"

MUTANTS = (
    Mutant(
        "Time",
        "the sweeper ends no request that is due",
        "ledger/scripts/sweep.lua",
        "sweep_entry",
        "  redis.call('ZADD', KEYS[1], now + SWEEPER_LEASE_MS, id)",
        (f"{_LEDGER}/test_sweeping.py::test_every_request_is_ended_before_its_deadline",),
    ),
    Mutant(
        "Time",
        "no time is kept for the terminal write",
        "client/chorale_client/scripts/prelude.lua",
        "finish_reserve",
        "  return 0",
        (f"{_LEDGER}/test_accepting.py::test_the_shortest_request_is_ended_before_its_deadline",),
    ),
    Mutant(
        "One end",
        "a second terminal write replaces the first",
        "client/chorale_client/scripts/prelude.lua",
        "end_request",
        """  local entry = as_table(redis.call('HGETALL', ENTRY .. id))
  entry.head, entry.accepted_at = entry.head or '"v":1', entry.accepted_at or now
  entry.fingerprint, entry.request, entry.answer_ttl = entry.fingerprint or '', entry.request or '', entry.answer_ttl or 1000
  return write_end(id, entry, by, body, now, false, completed), entry""",
        (f"{_LEDGER}/test_ending.py::test_the_first_terminal_write_wins",),
    ),
    Mutant(
        "Partial answers",
        "each delivery of a branch counts as another branch",
        "ledger/scripts/report.lua",
        "",
        """local id, b, status, result = unpack(ARGV)
redis.call('HSET', KEYS[1], 'status:' .. b, status, 'result:' .. b, result, 'mac:' .. b, ARGV[8])
return redis.call('HINCRBY', KEYS[1], 'left', -1) > 0 and 'counted' or 'due'
""",
        (
            f"{_LEDGER}/test_reporting.py::test_a_branch_reported_twice_counts_once",
            f"{_LEDGER}/test_reporting.py::test_the_first_answer_of_a_branch_wins",
            f"{_LEDGER}/test_reporting.py::test_a_report_after_the_snapshot_changes_nothing",
        ),
    ),
    Mutant(
        "Partial answers",
        "the answer does not name the branches that are missing",
        "fusion/branch_results.py",
        "missing_branches",
        "return ()",
        (
            "tests/unit/fusion/test_answer.py::test_a_branch_that_failed_degrades_the_answer_with_its_reason",
            "tests/unit/fusion/test_answer.py::test_a_branch_without_a_branch_result_has_the_reason_that_the_caller_knows",
        ),
    ),
    Mutant(
        "Messages",
        "no lost message is sent again, and no part is hedged",
        "ledger/scripts/sweep.lua",
        "sweep_parts",
        "  return tonumber(e.join_at)",
        (
            f"{_LEDGER}/test_sweeping.py::test_a_part_that_nobody_took_is_resent_at_most_twice",
            f"{_LEDGER}/test_hedging.py::test_a_part_without_an_answer_is_hedged_once",
        ),
    ),
    Mutant(
        "Messages",
        "a worker ends a request without reports although another process may work on it",
        "ledger/local_join.py",
        "_is_alone",
        "return True",
        (
            "tests/unit/ledger/test_local_join.py::test_a_process_joins_a_request_itself_only_while_nobody_else_can_begin_to_work_on_it",
        ),
    ),
    Mutant(
        "Messages",
        "a message that raises fails every message that a worker took with it",
        "tasks/request/search.py",
        "answer_together",
        """whole = parts[0] if len(parts) == 1 else _merged(parts)
try:
    return _searched(resources, parts, whole, begun_s)
except Exception as error:
    return [_failed(part, whole, Reason.ERROR, str(error), begun_s) for part in parts]""",
        (f"{_TOGETHER}::test_a_part_that_raises_fails_alone",),
    ),
    Mutant(
        "Neighbours",
        "workers keep the messages that they have taken under the keys of every application",
        "tasks/celery_internals/visibility.py",
        "QoS._run",
        """keys = ("unacked_index", "unacked", *queues)
with self.channel.conn_or_acquire() as client:
    return ledger_scripts(client).run(script, keys, list(arguments), client=client)""",
        (
            "tests/integration/tasks/test_messages_in_hand.py::test_a_message_that_another_application_has_taken_stays_with_that_application",
        ),
    ),
    Mutant(
        "Company",
        "questions with different filters and depths are searched as one",
        "tasks/request/batch.py",
        "_batch_key",
        "return part.branch.name",
        (f"{_TOGETHER}::test_parts_that_differ_are_searched_apart",),
    ),
    Mutant(
        "Load",
        "no failure opens a breaker",
        "ledger/scripts/outcomes.lua",
        "",
        "return {}\n",
        (
            "tests/integration/tasks/test_breaker_states.py::test_failures_in_a_row_open_the_breaker_which_keeps_the_last_reason",
        ),
    ),
    Mutant(
        "Load",
        "no queue is ever too long, so no request is refused",
        "tasks/sweeping/admission.py",
        "_bound_passed",
        'return ""',
        (
            "tests/unit/tasks/test_admission.py::test_new_requests_are_refused_if_planning_or_fusion_is_over_its_bound",
        ),
    ),
    Mutant(
        "Cache",
        "equal questions share an answer across namespaces",
        "tasks/request/planning/answer_cache.py",
        "answer_key",
        """document = json.dumps([dict(question), dict(options), dict(plan)], sort_keys=True)
return "answer:default:" + hashlib.sha256(document.encode()).hexdigest()""",
        (f"{_ANSWER_CACHE}::test_a_cached_answer_is_never_given_in_another_namespace",),
    ),
    Mutant(
        "Documents",
        "stores show a batch under generations of their own",
        "search/engines/embedded/store.py",
        "EmbeddedStore.generation",
        "return self._settled(namespace).sequence",
        (
            "tests/integration/search/documents/test_store.py::test_every_store_shows_a_batch_under_one_generation",
        ),
    ),
    Mutant(
        "Documents",
        "nobody writes again what a killed writer has not written",
        "search/documents/store.py",
        "DocumentStore.settle",
        "return {}",
        (
            "tests/integration/search/documents/test_killed_writer.py::test_a_writer_that_is_killed_anywhere_loses_nothing_and_doubles_nothing",
        ),
    ),
    Mutant(
        "Exact vectors",
        "the products of codes count as exact",
        "search/engines/embedded/vector_segments.py",
        "_lengths",
        "return np.zeros(len(vectors))",
        (
            "tests/unit/search/engines/embedded/test_vector_segments.py::test_no_product_of_codes_is_wrong_by_more_than_its_bound",
            "tests/unit/search/engines/embedded/test_vector_segments.py::test_a_ranking_by_codes_is_the_one_of_all_cosines",
        ),
    ),
    Mutant(
        "Moves",
        "a namespace moves to a store that lacks documents",
        "search/documents/moving.py",
        "_check",
        "return None",
        (
            "tests/integration/search/documents/test_moving.py::test_a_store_that_refuses_or_loses_a_document_does_not_serve",
        ),
    ),
    Mutant(
        "Models",
        "a slow reranker scores as many candidates as a fast one",
        "inference/pair_reranker.py",
        "PairSpeed.affordable",
        "return len(lengths)",
        (
            "tests/unit/inference/test_reranker_speed.py::test_a_model_slowed_ten_times_scores_a_few_pairs_and_all_fifty_when_it_recovers",
        ),
    ),
    Mutant(
        "Deploys",
        "workers refuse the next wire version",
        "client/chorale_client/wire_reader.py",
        "_tolerantly",
        """return ReadRequest(Request.model_validate(fields))""",
        (
            "tests/wire/test_stored_messages.py::test_a_request_of_the_next_version_is_read_without_its_new_fields",
        ),
    ),
    Mutant(
        "Audit",
        "an end leaves no entry for the audit",
        "client/chorale_client/scripts/prelude.lua",
        "write_end",
        """  redis.call('DEL', ENTRY .. id)
  redis.call('ZREM', WAKEUPS, id)
  local result = '{"status":"SUCCESS","fingerprint":"' .. entry.fingerprint .. '","result":{' .. entry.head .. ',' .. string.sub(body, 2) .. '}'
  redis.call('SET', RESULT .. id, result, 'PX', entry.answer_ttl)
  return result""",
        (f"{_LEDGER}/test_ending.py::test_the_outbox_entry_has_every_field_for_the_audit",),
    ),
    Mutant(
        "Audit",
        "ends leave the outbox before they are in the database",
        "records/audit/drainer.py",
        "Drainer._store",
        """self._redis.xdel(OUTBOX, *batch)
return self._write(batch), {}""",
        (
            "tests/integration/records/audit/test_drainer_faults.py::test_requests_wait_in_the_outbox_while_the_disk_is_full",
        ),
    ),
    Mutant(
        "Audit",
        "what a killed drainer has taken is given to no other",
        "records/audit/drainer.py",
        "Drainer._take",
        """self._scripts.run("make_group", [OUTBOX], [GROUP])
block = self._patience_ms(timeout_ms)
streams = self._redis.xreadgroup(GROUP, CONSUMER, {OUTBOX: ">"}, count=self._batch, block=block)
return list(streams[0][1]) if streams else []""",
        (
            "tests/integration/records/audit/test_drainer.py::test_a_callback_is_passed_on_by_another_drainer_if_the_first_dies_after_its_commit",
        ),
    ),
    Mutant(
        "Jobs",
        "a worker that lost its lines to another writes their results all the same",
        "records/jobs/segment_work.py",
        "_attempt",
        "return (segments.c.job_id == job_id) & (segments.c.number == number)",
        (f"{_JOBS}::test_a_worker_that_lost_its_lease_can_neither_renew_nor_write",),
    ),
    Mutant(
        "Tenants",
        "what a key asks for replaces the key's own filter",
        "records/keys/grant.py",
        "with_forced_filters",
        "return {**forced, **requested}",
        ("tests/unit/records/keys/test_grant.py::test_a_condition_of_the_key_is_never_dropped",),
    ),
    Mutant(
        "Tenants",
        "what a key forces is compared by its meaning too",
        "search/filter_meanings.py",
        "_conditions",
        "yield from ((field, [], [condition]) for field, condition in request.filters.items())",
        (
            "tests/unit/search/test_filter_meanings.py"
            "::test_only_what_a_caller_asks_is_compared_by_meaning_and_what_is_empty_is_left_out",
        ),
    ),
    Mutant(
        "Tenants",
        "what a key forces is left to the endpoint that gets the filters",
        "search/engines/http/answer.py",
        "AnswerReader._own_filters",
        "return {} if self._endpoint.takes_filters else dict(search.filters or {})",
        (
            "tests/integration/search/engines/http/test_http_filters.py"
            "::test_a_forced_filter_is_compared_here_whatever_the_endpoint_makes_of_it",
        ),
    ),
    Mutant(
        "Shared pages",
        "the coin always falls for A",
        "fusion/interleaving.py",
        "coins_of",
        "while True:\n    yield 0",
        (
            "tests/unit/fusion/test_interleaving.py"
            "::test_the_coins_of_a_request_are_always_the_same_and_fall_on_both_sides_alike",
        ),
    ),
    Mutant(
        "Shared pages",
        "its answer is cached for others",
        "tasks/request/planning/plans.py",
        "_is_cacheable",
        "return request.cache != 'bypass'",
        (
            "tests/unit/tasks/test_interleaving.py::test_the_plan_carries_how_b_fuses_and_is_not_cached",
            "tests/integration/tasks/test_interleaving.py"
            "::test_it_neither_reads_nor_writes_the_cache_and_nobody_waits_for_it",
        ),
    ),
    Mutant(
        "Shadows",
        "the usual workers search a shadow, and breakers count it",
        "tasks/request/planning/cost.py",
        "placed_branches",
        "return plan.branches",
        (f"{_SHADOWS}::test_a_shadow_is_searched_by_bulk_workers_once_its_request_has_ended",),
    ),
    Mutant(
        "Shadows",
        "a shadow is sent whoever waits, and although its request was erased",
        "tasks/sweeping/shadows.py",
        "Shadows.tick",
        """while self._drawn:
    submit(self._resources, self._fanout, self._drawn.popleft())
return TICK_EVERY_S""",
        (
            f"{_SHADOWS}::test_nothing_is_sent_without_a_bulk_worker_or_while_anybody_waits",
            f"{_SHADOWS}::test_a_request_that_is_erased_before_its_shadow_was_sent_has_none",
        ),
    ),
    Mutant(
        "Statements",
        "a statement that writes is taken for one that reads",
        "models/declarations/cypher.py",
        "writing_word",
        "return None",
        (
            "tests/unit/models/test_cypher.py::test_a_statement_that_writes_is_recognised",
            "tests/unit/config/test_graph_declarations.py::test_a_wrong_statement_or_graph_is_refused_with_its_line",
        ),
    ),
    Mutant(
        "Statements",
        "a key's filter is bound by no parameter",
        "tasks/branches/graph.py",
        "filter_values",
        "return {name: None for name in cypher.parameters(statement) if name.startswith(cypher.FILTER_PARAMETER)}",
        (
            "tests/unit/tasks/branches/test_graph_parameters.py"
            "::test_a_statement_that_cannot_bind_what_a_key_forces_is_refused_without_naming_the_filter",
        ),
    ),
    Mutant(
        "Logins",
        "every role has every right",
        "deploy/redis_acl.py",
        "Grant.rules",
        'return "~* +@all"',
        ("tests/unit/config/test_redis_acl.py::test_only_the_administrator_has_every_command",),
    ),
    Mutant(
        "Replicas",
        "too few replicas are enough",
        "client/chorale_client/ledger.py",
        "_require",
        "return",
        (
            "tests/faults/test_failover.py::test_a_sender_that_asks_for_a_replica_knows_which_requests_a_failover_would_lose",
        ),
    ),
    Mutant(
        "Cells",
        "no other cell gets the request",
        "client/chorale_client/cells.py",
        "Placement._attempts",
        """name = self._order(request)[0]
yield self._cells[name], _named(request, name), self._attempt(name, -inf)""",
        (
            "tests/unit/client/test_cells.py::test_a_request_that_a_cell_refuses_goes_to_the_next_one_in_the_time_that_is_left",
        ),
    ),
    Mutant(
        "Cells",
        "a lost cell counts no call of a key",
        "client/chorale_client/cells.py",
        "Placement.attempts",
        """name = self._order_of(hashed_text)[0]
yield name, self._cells[name], self._attempt(name, -inf)""",
        (
            "tests/integration/api/test_cells.py::test_a_lost_cell_costs_the_limit_of_a_key_at_most_one_window",
        ),
    ),
    Mutant(
        "Cells",
        "an id leads to the first cell",
        "client/chorale_client/cells.py",
        "Placement.of",
        "return next(iter(self._cells.values()))",
        ("tests/unit/client/test_cells.py::test_an_id_names_its_cell_after_a_dot",),
    ),
    Mutant(
        "Cells",
        "each cell takes the documents that it is given",
        "cli/installation.py",
        "Installation.cell_of",
        "return self",
        (
            "tests/unit/cli/test_cells.py::test_documents_go_through_the_redis_that_takes_those_of_their_namespace",
        ),
    ),
)
