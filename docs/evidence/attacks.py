"""The attacks on callers, documents and terminals with their tests: `python -m docs.evidence.attacks` writes attacks.md."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_suffix(".md")

_RANDOM = "tests/integration/tasks/test_random_input.py"
_LOGINS = "tests/integration/test_deployment_redis_acl.py"
ATTACKS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "A login reads or changes the data of another role, or configures, empties or stops Redis",
        "a Redis login for each role",
        (
            f"{_LOGINS}::test_no_role_can_touch_the_data_of_another_role",
            f"{_LOGINS}::test_no_role_can_do_what_an_administrator_does",
        ),
    ),
    (
        "A caller's login makes the sweeper send a message to any queue",
        "no queue and no message is read from an entry",
        (
            "tests/faults/test_forged.py::test_a_forged_entry_makes_the_sweeper_push_no_message_to_another_queue",
            "tests/integration/ledger/test_forged_entries.py::test_an_entry_names_no_queue",
            "tests/integration/ledger/test_forged_entries.py::test_an_entry_names_no_key_that_its_end_deletes",
        ),
    ),
    (
        "A caller's login answers for a branch or changes a plan",
        "plans and answers of branches are signed",
        (
            "tests/faults/test_forged.py::test_a_forged_answer_of_a_branch_is_a_failed_branch_and_nobody_else_sees_it",
            "tests/faults/test_forged.py::test_a_forged_answer_does_not_answer_those_who_asked_the_same",
            "tests/faults/test_forged.py::test_a_forged_plan_is_neither_searched_nor_fused",
            "tests/faults/test_forged.py::test_a_request_that_was_changed_after_it_was_planned_is_not_cached_under_the_other_question",
        ),
    ),
    (
        "An entry without its fields stops the sweep of all requests, or goes unnoticed",
        "each entry is checked alone; `chorale doctor`, `chorale status` and `/metrics` show malformed ones",
        (
            "tests/faults/test_forged.py::test_an_entry_without_its_fields_keeps_no_other_request_from_its_end",
            "tests/integration/ledger/test_forged_entries.py::test_a_malformed_entry_is_set_aside_and_the_others_are_swept",
            "tests/integration/ledger/test_forged_entries.py::test_a_thousand_poisoned_moments_delay_nobody_for_long",
            "tests/integration/cli/commands/test_doctor.py::test_what_was_set_aside_is_found_with_the_first_reasons",
            "tests/unit/cli/test_status_view.py::test_the_status_shows_figures_and_then_what_is_wrong_with_how_to_mend_it",
            f"{_LOGINS}::test_the_operator_may_look_at_the_server_and_at_what_could_not_be_audited",
            f"{_LOGINS}::test_a_right_that_an_older_acl_file_lacks_is_an_error_and_no_request_that_has_ended",
        ),
    ),
    (
        "Forged entries and messages come while processes are killed and hung",
        "signatures, and each end is written once (`make soak`)",
        ("tests/soak/test_soak.py::test_a_thousand_requests_under_attack_each_end_once_and_correctly",),
    ),
    (
        "A job's webhook is an address in the sweeper's network",
        "only public addresses are called",
        (
            "tests/integration/records/jobs/test_on_end.py::test_a_job_may_name_only_receivers_that_the_installation_allows",
            "tests/integration/records/jobs/test_on_end.py::test_no_webhook_calls_a_name_of_which_one_address_is_not_public",
            "tests/integration/records/jobs/test_on_end.py::test_the_call_goes_to_the_address_that_was_checked",
        ),
    ),
    (
        "A document's title is a formula in a spreadsheet of results",
        "an apostrophe before it, except in `csv-raw`",
        (
            "tests/unit/records/jobs/test_result_formats.py::test_a_text_that_a_spreadsheet_would_compute_is_a_text_in_csv_and_unchanged_in_csv_raw",
        ),
    ),
    (
        "A question, an entity, a filter or a namespace contains Cypher",
        "values are parameters",
        (
            "tests/integration/tasks/test_graph_branch.py::test_cypher_in_a_question_an_entity_or_a_filter_is_a_value_and_nothing_else",
            "tests/contracts/cypher.py::test_cypher_in_a_value_is_a_value",
            "tests/unit/models/test_cypher.py::test_a_statement_that_writes_is_recognised",
        ),
    ),
    (
        "A graph leads a key through documents that it may not see",
        "the statement must bind the key's filters",
        (
            "tests/integration/tasks/test_graph_branch.py::test_a_keys_filter_binds_the_paths",
            "tests/integration/tasks/test_graph_branch.py::test_a_branch_that_does_not_bind_a_keys_filter_is_refused",
        ),
    ),
    (
        "Huge, deep or slow bodies; headers that take long to read, or that a proxy reads in another way",
        "limits of size and time, a strict parser",
        (
            "tests/integration/api/test_before_the_body.py::test_without_a_valid_key_no_body_is_read",
            "tests/integration/api/test_before_the_body.py::test_without_the_scope_no_body_is_read",
            "tests/integration/api/test_before_the_body.py::test_a_body_that_is_not_said_to_be_json_is_not_read",
            "tests/integration/api/test_before_the_body.py::test_a_body_of_brackets_is_refused_before_they_become_objects",
            "tests/integration/api/test_limited_requests.py::test_a_connection_whose_head_does_not_arrive_in_time_is_closed",
            "tests/integration/api/test_limited_requests.py::test_a_head_that_can_be_read_in_two_ways_is_refused",
            "tests/integration/api/test_uploads.py::test_one_key_cannot_take_the_places_of_the_uploads_of_another",
            "tests/unit/api/test_slow_uploads.py::test_an_upload_that_comes_too_slowly_is_ended",
            "tests/unit/api/test_preferences.py::test_a_line_of_a_megabyte_is_read_in_its_length",
            "tests/architecture/test_expressions.py::test_an_expression_reads_a_long_text_in_little_time",
        ),
    ),
    (
        "Random calls, options, lines, messages, entries, answers and files",
        "an error that names the fault, or a request that ends",
        (
            "tests/integration/api/test_tenants.py::test_fuzzed_calls_show_nothing_of_another_tenant",
            "tests/unit/client/test_random_input.py::test_options_of_a_request_are_taken_or_refused_by_name",
            "tests/unit/client/test_random_input.py::test_lines_of_json_are_taken_or_refused_by_name",
            "tests/unit/client/test_random_input.py::test_rows_of_csv_are_taken_or_refused_by_name",
            f"{_RANDOM}::test_a_message_with_a_request_ends_under_its_id_or_the_message_s",
            f"{_RANDOM}::test_a_message_with_documents_is_told_as_done_or_refused",
            f"{_RANDOM}::test_an_entry_is_swept_and_worked_on_without_harm",
            f"{_RANDOM}::test_whatever_a_branch_finds_its_request_ends",
            f"{_RANDOM}::test_whatever_an_answer_of_a_branch_says_its_request_ends",
            "tests/unit/ingest/test_random_files.py::test_a_random_file_is_read_or_reported_and_its_neighbour_read",
        ),
    ),
    (
        "A caller's login puts another task into the queue of requests",
        "workers drop what is not a request",
        (
            "tests/faults/test_forged.py::test_workers_drop_each_message_on_the_queue_of_requests_that_is_not_a_request",
            "tests/faults/test_forged.py::test_a_message_with_the_id_of_a_part_does_not_count_as_a_failure_of_its_branch",
        ),
    ),
    (
        "A caller's login makes another caller's request wait for its own",
        "equal questions are matched under keys that callers cannot reach",
        (
            "tests/integration/ledger/test_forged_entries.py::test_a_leader_s_caller_does_not_learn_who_follows",
            "tests/integration/ledger/test_forged_entries.py::test_a_leader_answers_no_follower_of_another_coalescing_key",
            "tests/integration/ledger/test_forged_entries.py::test_a_malformed_leader_is_not_followed",
        ),
    ),
    (
        "Somebody listens or answers between workers and Redis, RabbitMQ or PostgreSQL",
        "logins, TLS and checked certificates",
        (
            "tests/integration/test_deployment_redis_acl.py::test_a_connection_without_a_login_may_only_ping",
            "tests/integration/test_deployment_redis_acl.py::test_a_wrong_password_and_an_unknown_authority_are_turned_away",
            "tests/integration/records/audit/test_postgresql_over_tls.py::test_verify_full_tells_a_server_of_another_authority_nothing",
            "tests/integration/records/audit/test_postgresql_over_tls.py::test_require_tells_a_server_without_tls_nothing",
            "tests/integration/test_broker_over_tls.py::test_nobody_logs_in_to_a_broker_whose_certificate_has_another_name",
            "tests/integration/test_broker_over_tls.py::test_kombu_logs_in_to_no_redis_whose_certificate_is_not_trusted",
        ),
    ),
    (
        "Flower's login stops workers or takes their queues from them",
        "no remote control unless `CHORALE_REMOTE_CONTROL` is set",
        (
            f"{_LOGINS}::test_flower_s_login_may_not_command_workers_unless_that_is_turned_on",
            f"{_LOGINS}::test_workers_obey_no_command_of_anybody",
        ),
    ),
    (
        "Somebody opens Flower without a login, or tries many passwords",
        "a login, except on loopback; each wrong password waits half a second",
        (
            "tests/unit/tasks/test_flower_start.py::test_flower_without_a_login_does_not_open_its_port",
            "tests/unit/tasks/test_flower_start.py::test_a_login_without_a_user_or_a_password_does_not_count",
            "tests/unit/tasks/test_flower_start.py::test_wrong_logins_wait_one_after_another_and_nobody_else_waits",
            "tests/acceptance/test_flower.py::test_a_wrong_login_is_refused_and_metrics_need_none",
        ),
    ),
    (
        "Somebody guesses the id of a request",
        "122 random bits",
        ("tests/unit/client/test_request_ids.py::test_the_id_of_a_request_has_122_random_bits",),
    ),
    (
        "A key changes rules without the right, or a pin shows what a filter hides",
        "the scope `documents:write`; filters hold for pinned documents",
        (
            "tests/integration/api/test_rules.py::test_a_key_without_the_right_or_for_another_namespace_neither_reads_nor_writes",
            "tests/integration/api/test_rules.py::test_wrong_rules_and_too_many_are_refused_by_name",
            "tests/integration/api/test_rules.py::test_huge_rules_and_foreign_etags_are_refused",
            "tests/unit/records/rules/test_matching.py::test_the_most_rules_that_are_allowed_match_the_longest_question_in_little_time",
            "tests/integration/tasks/test_rules.py::test_a_pin_breaks_no_filter_and_no_exclusion_but_stands_above_thresholds_and_groups",
        ),
    ),
    (
        "A field has 5 MB, a filter 100,000 conditions, or a text lone surrogates",
        "a limit for each field; the error names the field",
        (
            "tests/unit/client/test_limits.py::test_more_than_the_limit_is_refused_by_name",
            "tests/unit/client/test_limits.py::test_a_request_that_was_made_past_the_client_s_checks_is_refused_before_it_is_read",
            "tests/unit/client/test_limits.py::test_half_a_character_in_a_name_is_refused_by_field",
            "tests/integration/tasks/test_random_input.py::test_half_a_character_for_a_linked_task_ends_the_request_with_the_reason",
        ),
    ),
    (
        "One costly request degrades all others and opens their breakers",
        "costly requests run on the bulk workers",
        (
            "tests/integration/tasks/test_costly_requests.py::test_64_questions_with_8_documents_each_degrade_no_other_request_and_open_no_breaker",
        ),
    ),
    (
        "The receiver of a key's webhooks signs for another key",
        "a secret for each key",
        (
            "tests/integration/records/jobs/test_on_end.py::test_the_webhooks_of_a_key_are_signed_with_its_own_secret",
        ),
    ),
    (
        "A writer hands in the same id in another Unicode form",
        "ids are in NFC, also in rules",
        (
            "tests/integration/tasks/test_handed_in.py::test_a_document_is_deleted_by_the_id_that_it_was_sent_with",
            "tests/unit/records/rules/test_matching.py::test_a_document_is_named_in_any_unicode_form",
        ),
    ),
    (
        "Uploads that are cut off fill the log",
        "one line for each",
        ("tests/integration/api/test_uploads.py::test_an_upload_that_is_cut_off_is_one_line_in_the_log",),
    ),
    (
        "Killed workers make branches count as broken",
        "a worker that starts closes their breakers",
        (
            "tests/soak/test_soak.py::test_replicas_that_are_killed_in_turn_leave_at_most_one_request_in_fifty_without_an_answer",
            "tests/integration/tasks/test_breaker_states.py::test_a_worker_that_comes_back_closes_the_breaker_of_a_branch_that_nobody_answered_for",
        ),
    ),
    (
        "Costly requests of one tenant keep another tenant waiting",
        "a costly request counts as several, and runs on no worker that answers others",
        (
            "tests/integration/api/test_searches.py::test_a_costly_search_counts_for_as_many_calls_as_it_costs",
            "tests/unit/records/jobs/test_fairness.py::test_a_tenant_whose_lines_cost_more_sends_fewer_of_them",
            "tests/integration/tasks/test_costly_requests.py::test_without_a_bulk_worker_the_usual_workers_answer_a_costly_request",
        ),
    ),
    (
        "A very large filter over many documents",
        "the store looks at the deadline after each document",
        (
            "tests/unit/search/engines/embedded/test_filter_masks.py::test_a_search_looks_at_its_deadline_after_each_document_and_the_next_one_goes_on_from_there",
            "tests/unit/search/engines/embedded/test_filter_masks.py::test_while_one_filter_is_judged_searches_with_others_and_with_the_same_are_answered",
            "tests/unit/search/engines/embedded/test_filter_masks.py::test_a_list_of_a_thousand_values_is_compared_with_a_thousand_values_in_a_thousand_steps",
            "tests/unit/tasks/test_cost.py::test_the_costliest_allowed_requests_are_sent_to_the_bulk_workers_once",
        ),
    ),
    (
        "A large document keeps other namespaces waiting",
        "a namespace's turn can end within a document",
        (
            "tests/unit/tasks/test_turns.py::test_a_heavy_message_lets_the_message_of_another_namespace_come_first",
            "tests/integration/tasks/test_turns_of_namespaces.py::test_a_small_document_of_one_namespace_comes_before_the_rest_of_a_heavy_one_of_another",
            "tests/unit/ingest/test_hostile_sizes.py::test_splitting_four_times_the_text_takes_at_most_five_times_the_work",
            "tests/unit/ingest/test_hostile_sizes.py::test_a_text_with_more_headings_than_a_reader_would_use_has_no_sections",
            "tests/integration/tasks/test_embedded_ahead.py::test_a_message_goes_on_where_its_turn_was_over",
        ),
    ),
    (
        "A message or a judged collection is too large, or a golden file has YAML aliases for billions of values",
        "limits of size; aliases are refused",
        (
            "tests/unit/client/test_documents.py::test_too_large_metadata_is_refused_by_the_number_of_its_document",
            "tests/unit/client/test_documents.py::test_too_many_documents_and_ids_are_refused",
            "tests/unit/client/test_documents.py::test_too_many_bytes_of_documents_are_refused",
            "tests/unit/ingest/test_handed_in.py::test_a_message_of_a_program_without_our_client_has_the_same_limits",
            "tests/unit/evaluation/test_collection.py::test_a_line_that_would_fill_the_memory_is_named_and_not_shown",
            "tests/unit/evaluation/test_collection.py::test_too_many_lines_are_refused",
            "tests/unit/evaluation/test_golden_file.py::test_a_wrong_entry_is_named_with_its_line_and_field",
        ),
    ),
    (
        "A link leads out of the folder, a file becomes a pipe, folders are 1,500 levels deep",
        "such links and pipes are not read; the walk has no recursion",
        (
            "tests/unit/ingest/test_links.py::test_by_default_a_link_is_reported_and_not_followed",
            "tests/unit/ingest/test_links.py::test_a_file_that_becomes_a_link_before_it_is_opened_is_not_read",
            "tests/unit/ingest/test_links.py::test_a_link_out_of_the_folder_is_never_followed",
            "tests/unit/ingest/test_links.py::test_a_folder_that_links_to_itself_is_walked_once",
            "tests/unit/ingest/test_links.py::test_links_into_a_hidden_chain_of_folders_read_each_folder_once",
            "tests/unit/ingest/test_parser_bombs.py::test_a_folder_1500_levels_deep_is_read",
            "tests/unit/ingest/test_links.py::test_a_file_that_becomes_a_pipe_before_it_is_opened_is_not_waited_for",
        ),
    ),
    (
        "Small files that cost a parser minutes or gigabytes",
        "the parser's process has limits of time, memory and output",
        (
            "tests/unit/ingest/test_parser_bombs.py::test_a_bomb_is_given_up_and_its_neighbour_read",
            "tests/unit/ingest/test_outline.py::test_splitting_a_file_s_document_parses_nothing",
            "tests/integration/cli/commands/test_index.py::test_a_bomb_among_files_is_named_and_the_others_are_indexed",
        ),
    ),
    (
        "Another user of the machine reads the home or a backup",
        "umask 077; `chorale doctor` names what others may read",
        (
            "tests/integration/cli/commands/test_private_files.py::test_the_command_that_makes_the_home_makes_it_private",
            "tests/integration/cli/commands/test_private_files.py::test_a_backup_and_what_is_restored_from_it_are_private",
            "tests/integration/cli/commands/test_private_files.py::test_the_doctor_finds_a_home_that_others_may_use",
            "tests/integration/cli/commands/test_private_files.py::test_the_doctor_finds_a_home_that_others_may_replace",
            "tests/unit/config/test_redis_acl.py::test_only_the_owner_may_read_the_file",
        ),
    ),
    (
        "A question, title, file name or error controls the terminal",
        "control characters are printed as `\\x1b`",
        (
            "tests/unit/cli/test_terminal.py::test_a_hostile_text_is_shown_and_not_obeyed",
            "tests/unit/config/test_logging.py::test_a_hostile_text_is_one_line_of_the_console_and_is_not_obeyed",
            "tests/unit/cli/test_terminal.py::test_json_keeps_the_values_exactly",
        ),
    ),
    (
        "The error of an unknown namespace shows names and paths",
        "it names only the key's namespaces",
        (
            "tests/integration/tasks/test_who_is_told_of_namespaces.py::test_a_caller_of_the_client_learns_which_namespaces_there_are_and_no_path",
            "tests/integration/tasks/test_who_is_told_of_namespaces.py::test_a_caller_over_http_learns_of_the_namespaces_of_its_key_alone",
        ),
    ),
    (
        "A model is replaced on the hub, has a pickle or code, or links out of its folder",
        "the SHA-256 of every file is checked; a pickle needs a setting",
        (
            "tests/unit/inference/test_model_trust.py::test_a_model_that_changes_on_the_hub_is_refused_by_the_names_of_its_files",
            "tests/unit/inference/test_model_trust.py::test_a_file_that_a_later_commit_adds_is_refused",
            "tests/unit/inference/test_model_files.py::test_a_file_of_the_package_that_is_not_the_published_one_is_refused",
            "tests/unit/inference/test_model_trust.py::test_pickled_weights_of_a_folder_are_refused_unless_they_are_allowed",
            "tests/unit/inference/test_model_trust.py::test_a_model_that_brings_code_or_leads_out_of_its_folder_is_refused",
        ),
    ),
    (
        "Somebody guesses questions from hashes, or reads erased ones",
        "keyed hashes; erased rows are overwritten",
        (
            "tests/unit/records/audit/test_rows.py::test_a_question_cannot_be_guessed_from_its_hash",
            "tests/unit/records/audit/test_rows.py::test_without_texts_no_word_of_a_question_is_in_any_row",
            "tests/integration/records/audit/test_retention.py::test_requests_older_than_the_time_to_keep_are_deleted_and_the_others_stay",
            "tests/integration/cli/commands/test_audit_removal.py::test_no_file_of_the_home_has_an_erased_question",
        ),
    ),
    (
        "An attacker in one service reads the secrets of others",
        "each service has only the secrets that it needs",
        (
            "tests/acceptance/deploy/test_compose.py::test_a_service_gets_the_secrets_that_it_needs_and_no_others",
            "tests/acceptance/deploy/test_kubernetes.py::test_a_pod_gets_the_secrets_that_it_needs_and_no_others",
        ),
    ),
    (
        "A package has a known weakness, or is replaced under its version",
        "`make audit`, `make sbom`; exact versions, digests and hashes",
        (
            "tests/architecture/test_supply_chain.py::test_the_audit_is_green_only_if_pypi_answers_for_every_version",
            "tests/architecture/test_supply_chain.py::test_every_locked_package_of_the_service_is_in_the_sbom_with_its_version_and_hashes",
            "tests/acceptance/deploy/test_compose.py::test_the_image_is_built_from_an_exact_version_that_can_be_pinned",
            "tests/acceptance/deploy/test_kubernetes.py::test_an_image_can_be_pinned_by_its_digest",
            "tests/architecture/test_repository.py::test_every_package_of_a_lock_has_a_hash_and_no_lock_an_address",
        ),
    ),
    (
        "The running Redis has a known weakness",
        "`chorale doctor` says that it is older than the tested one",
        (
            "tests/unit/cli/test_redis_release.py::test_a_redis_that_is_older_than_the_tested_one_gets_a_remark",
        ),
    ),
    (
        "A call makes the HTTP process hang",
        "`chorale up` replaces it after 12 seconds",
        ("tests/acceptance/installations/test_up.py::test_an_http_process_that_hangs_is_replaced",),
    ),
    (
        "A revoked key continues to read a stream",
        "a stream ends within a second",
        ("tests/integration/api/test_search_events.py::test_a_stream_ends_when_its_key_is_revoked",),
    ),
    (
        "An Idempotency-Key gets the answer of another namespace",
        "the key is bound to the namespace",
        ("tests/integration/api/test_searches.py::test_an_idempotency_key_makes_a_call_once",),
    ),
)
"""What is tried, what stands against it, and the tests that show it."""

OPEN: tuple[str, ...] = (
    "**A stolen login of a caller.**  It can read and end requests whose ids it knows, steer all jobs, fill the memory of Redis, "
    "and block Redis with a script.",
    "**Bulk workers that are busy with costly requests.**  A job of another tenant waits until one of these requests ends, at most for its "
    "`timeout_s`.",
    "**Markdown that a writer hands in.**  A worker parses a document without a pause for other namespaces.  The worst known "
    "text, quotations 20 levels deep, takes 24 minutes for 16 MiB.",
)
"""What nothing stands against yet."""

_HEAD = """# Attacks that the tests make

[attacks.py](attacks.py) names the tests of each row; `python -m docs.evidence.attacks` writes this page.

| attack | what stands against it |
|---|---|
"""

_TENANTS = """
## One tenant against another

The tenant *acme* calls each route with ids of the tenant *zenith* and with ids that nobody has.  Both calls must get the same response, and no
response to a random call may have a text of zenith (`tests/integration/api/test_tenants.py`).  `python -m docs.evidence.tenants` makes
10,000 such calls and prints the result for each route.

What tenants can still notice:

- Scores of BM25 depend on the statistics of the whole namespace, and near-duplicates are found in the whole namespace.
- All tenants wait in the same queues, and admission refuses everybody when they are full.
- Flower, the console, Redis and the databases are the operator's, and show every tenant.
"""


def attacks_page() -> str:
    """The whole page as Markdown."""
    return (
        _HEAD
        + "".join(f"| {attack} | {defence} |\n" for attack, defence, _ in ATTACKS)
        + "\n## Open\n\n"
        + "".join(f"- {one}\n" for one in OPEN)
        + _TENANTS
    )


if __name__ == "__main__":
    PAGE.write_text(attacks_page(), encoding="utf-8")
