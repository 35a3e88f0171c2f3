"""What five earlier systems promised, line by line, with the tests: `python -m docs.evidence.first_systems` writes first_systems.md.

first_systems.json has the figures that the tests record if CHORALE_TEST_RECORD is set.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).with_suffix(".md")
FIGURES = PAGE.with_suffix(".json")


class Line(NamedTuple):
    """One promise.  `lacks` says what the product or the tests lack of it; a promise without tests is not reached."""

    promise: str
    tests: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def state(self) -> str:
        if not self.tests:
            return "not reached"
        return "in part" if self.lacks else "met"


class System(NamedTuple):
    name: str
    lines: tuple[Line, ...]


_FIRST = "tests/acceptance/first_systems"
_LEGAL = f"{_FIRST}/test_legal_assistant.py::test_"
_AGENT = f"{_FIRST}/test_agent_framework.py::test_"
_FARM = f"{_FIRST}/test_farm_advisory.py::test_"
_STAGES = f"{_FIRST}/test_two_stage_retriever.py::test_"
_LATE = f"{_FIRST}/test_late_fusion_engine.py::test_"
_WORKERS = f"{_FIRST}/test_on_workers.py::test_"
_TOGETHER = f"{_WORKERS}each_source_answers_only_once_all_four_have_been_asked"
_FASTER = f"{_WORKERS}several_sources_at_once_are_faster_than_one_after_the_other"
_STOPPED = f"{_WORKERS}the_other_branches_answer_by_the_deadline_while_the_worker_of_one_is_stopped"
_IN_TIME = f"{_WORKERS}95_of_100_answers_come_within_500_ms_and_half_of_the_searches_within_20"
_INSTALLED = "tests/acceptance/installations"
_FLOORS = "tests/architecture/test_floors.py::test_every_folder_with_code_has_a_layer"
_GOLDEN = f"{_INSTALLED}/test_golden_suite.py::test_an_expected_document_is_among_the_first_five_and_what_nothing_answers_is_abstained"


def _of(prefix: str, promise: str, *names: str, lacks: str = "") -> Line:
    """A line whose tests are in the file of its system, except those that have a path."""
    tests = (name if name.startswith("tests/") else prefix + name for name in names)
    return Line(promise, tuple(tests), lacks)


def _system(name: str, prefix: str, *lines: tuple[str, ...] | Line) -> System:
    return System(name, tuple(one if isinstance(one, Line) else _of(prefix, *one) for one in lines))


_SIDE = "bm25_vector_and_hyde_wait_side_by_side"
_GRAPH_OF_STEPS = "a_graph_classifies_expands_and_retrieves"
_ANY_ERROR = "any_error_leaves_an_empty_result_that_names_it"
_HIERARCHY = "a_law_stands_before_a_decree_a_circular_and_an_faq_of_the_same_text_rank"
_CAPABILITIES = "side_effects_follow_from_the_declaration_alone_and_are_the_same_at_each_reading"
_FUSED_FIVE = "each_declared_store_has_its_branch_and_the_fused_best_five_are_the_result"
_FIRST_K = "the_document_store_lists_the_first_k_without_a_filter_in_a_stable_order_at_score_0"
_NODE_STATE = "the_node_reads_the_query_of_the_state_and_writes_what_was_retrieved"
_FETCHED = "a_query_is_embedded_searched_and_its_texts_fetched"
_DOMAINS = "only_documents_of_the_domains_are_found_in_one_ranking_by_score"
_THRESHOLD = "matches_below_the_threshold_are_removed_after_the_search"
_RESULT = "the_result_names_query_namespace_total_configuration_method_and_moment"
_OWN_GOLDEN = "the_golden_suite_has_ten_samples_and_more_and_ones_own_may_be_yaml_or_json_lines"
_COARSE = "the_coarse_search_finds_and_the_cross_encoder_orders_the_best_fifty_of_a_hundred"
_BLEND = "a_score_is_three_tenths_coarse_and_seven_tenths_reranked_between_0_and_1_and_sorted"
_BASELINE = "hybrid_and_baseline_are_asked_by_http"
_MEAN = "a_score_is_the_weighted_mean_over_the_sources_that_found_it_times_the_boost_at_most_1"
_FOLDED = "near_duplicates_and_exact_copies_are_folded_into_the_best_one"
_CHOSEN = "a_request_chooses_its_sources_its_strategy_and_its_number_of_results"
_FUSED_ANSWER = "the_answer_has_fused_content_confidence_time_query_strategy_and_moment"
_ONE_RESULT = "a_result_has_content_title_score_type_metadata_and_a_snippet_that_fits_the_query"

SYSTEMS = (
    _system(
        "The legal assistant's parallel step",
        _LEGAL,
        ("BM25, vectors and HyDE search at the same time", _TOGETHER, _STOPPED, _SIDE),
        ("A score is the sum of weight / (60 + rank)", "a_score_is_the_sum_of_weight_over_60_plus_rank_with_weights_3_4_3"),
        ("The default weights are .3, .4 and .3", "a_score_is_the_sum_of_weight_over_60_plus_rank_with_weights_3_4_3"),
        ("Each of seven types of Italian sources has its factor", "each_source_type_has_its_factor_with_or_without_a_capital", "a_source_type_that_no_table_knows_is_logged_once"),
        ("A law stands before a decree, a circular and an FAQ", _HIERARCHY),
        ("A source of the last twelve months has half as much again", "twelve_months_are_months_of_the_calendar_and_multiply_with_the_authority"),
        _of(_LEGAL, "A document is listed once, with its best passage", "a_document_is_listed_once_with_its_best_passage", lacks="the test gives the fusion rankings that are made by hand"),
        ("The step is skipped if the routing decision says so", "the_step_is_skipped_if_the_routing_decision_needs_no_retrieval"),
        ("Any error leaves an empty result", _ANY_ERROR, "a_question_of_a_function_that_fails_leaves_an_empty_result_too"),
        ("Rewrites of the question are read from a dictionary", "query_variants_are_rebuilt_from_a_dict_and_may_take_the_place_of_the_question"),
        ("A hypothetical document is read from a dictionary", "a_hyde_result_is_rebuilt_from_a_dict"),
        ("The result in the state can be written as JSON", "the_result_in_the_state_is_plain_json_which_a_checkpoint_keeps"),
        ("Real services answer behind the step", "tests/integration/tasks/test_whole_pipeline.py::test_async_result_agrees_before_and_after_the_end"),
        ("HyDE writes a hypothetical answer", "hyde_writes_its_hypothesis_without_a_language_model", "a_hyde_result_is_rebuilt_from_a_dict"),
        ("A state without rewrites is searched by its question", _GRAPH_OF_STEPS, "a_state_without_a_question_is_skipped"),
        ("Tests show success, skipping, errors and missing parts", _GRAPH_OF_STEPS, "the_step_is_skipped_if_the_routing_decision_needs_no_retrieval", _ANY_ERROR),
        ("Each step leaves a structured line in the log", "a_step_that_fails_leaves_a_line_of_json_with_its_reason"),
        ("Classifying, expanding and retrieving are one graph", _GRAPH_OF_STEPS),
        ("The factors of authority and recency multiply", "twelve_months_are_months_of_the_calendar_and_multiply_with_the_authority", "the_preset_has_a_variant_on_scores"),
    ),
    _system(
        "The agent framework's retrieval node",
        _AGENT,
        ("Each declared store has a branch", _FUSED_FIVE),
        ("Rankings are joined by reciprocal rank fusion, which can be replaced", "the_ranking_is_reciprocal_rank_fusion_and_another_method_can_take_its_place"),
        _of(_AGENT, "k is 5 for the output and for each branch", _FUSED_FIVE, "tests/integration/tasks/test_whole_pipeline.py::test_each_branch_returns_exactly_k_documents_if_k_is_the_depth", lacks="a branch returns exactly k only if the request gives k as `depth`"),
        ("The framework resolves its own stores", "a_store_of_the_frameworks_own_is_resolved_and_searched"),
        ("The node asks all stores, waits, and returns the fused best", _FUSED_FIVE),
        ("A vector branch searches by meaning", "the_vector_branch_finds_by_meaning"),
        _of(_AGENT, "A store without vectors is searched by words", "without_vectors_the_words_answer", lacks="another branch answers, and the answer says `degraded`"),
        ("A query that is None gives an empty list", "a_query_that_is_none_gives_nothing_and_no_error"),
        ("A document store lists k documents at score 0", _FIRST_K),
        ("A graph branch runs Cypher", "the_graph_branch_runs_the_cypher_of_its_store"),
        ("Each graph store has its own Cypher statement", "the_graph_branch_runs_the_cypher_of_its_store"),
        ("Each store has the capability `db.<name>:read`", _CAPABILITIES),
        ("A keyword that writes needs the capability to write", "a_keyword_that_writes_makes_the_store_one_that_is_written_and_needs_leave", "a_statement_in_the_body_of_an_http_store_is_read_for_keywords_that_write_too", "tests/unit/models/test_write_words.py::test_a_keyword_that_writes_is_found_wherever_it_is_sent"),
        ("Capabilities follow from the declaration alone", _CAPABILITIES),
        ("The node reads `state.query` and writes a list of hits to `state.retrieved`", _NODE_STATE, "tests/acceptance/adapters/test_langgraph.py::test_the_node_may_write_a_list_of_hits_with_the_coverage_beside_it"),
        ("The request tells of the end of each branch", "an_event_for_each_branch_reaches_the_stream_of_the_graph"),
        ("The node writes an event for each branch to the graph's stream", "an_event_for_each_branch_reaches_the_stream_of_the_graph"),
        ("A search has the side effect of reading", _CAPABILITIES),
        ("A recorded retrieval replays to the same result", "a_recorded_retrieval_replays_to_the_same_result"),
        _of(_AGENT, "The stores are declared in YAML", _FUSED_FIVE, lacks="the file of the framework itself is not read, only its translation"),
        ("A provider's exception aborts the rest", "the_exception_of_a_provider_aborts_the_rest"),
        ("The engine ends a group of tasks that does not end", _STOPPED, "the_engine_ends_a_task_group_in_which_a_branch_never_answers"),
        ("The order at score 0 is stable", _FIRST_K),
    ),
    _system(
        "The farm advisory's retrieval service",
        _FARM,
        ("One call takes a query, domains, a number, a threshold and a namespace", _DOMAINS, _THRESHOLD, "a_namespace_is_searched_alone"),
        ("A query is embedded, searched and its texts fetched", _FETCHED),
        _of(_FARM, "Queries and passages have the prompts of an E5 model", "query_and_passages_have_the_prompts_that_their_model_declares", "a_model_of_the_e5_family_that_declares_no_prompts_gets_those_of_its_family", lacks="the tests read what is declared, and not what a model is sent"),
        ("Without an encoder the answer says what is missing", "without_an_embedder_words_answer_and_the_answer_names_what_is_missing"),
        ("A filter chooses several domains", _DOMAINS),
        ("Five matches are returned by default", "five_documents_are_returned_unless_the_query_says_otherwise"),
        ("A namespace is searched alone", "a_namespace_is_searched_alone"),
        ("There is a threshold of similarity, and none by default", _THRESHOLD),
        ("The threshold holds after the search", _THRESHOLD),
        ("A match has its text", "a_match_has_id_content_score_and_metadata"),
        ("A match has its score and metadata", "a_match_has_id_content_score_and_metadata"),
        ("One query searches several domains", _DOMAINS),
        ("Matches of all domains are one ranking by score", _DOMAINS),
        ("A query is a checked object", "a_request_says_what_it_takes_and_an_unknown_field_is_an_error"),
        ("A match is a typed object", "a_match_has_id_content_score_and_metadata"),
        ("A result names query, namespace and number of matches", _RESULT, "a_result_from_the_cache_names_its_query_too", "a_reranked_result_names_the_method_that_fused_it"),
        ("A golden suite has ten questions or more", _OWN_GOLDEN, _GOLDEN),
        ("The golden suite has a namespace of its own, which is removed", "tests/integration/cli/commands/test_golden.py::test_documents_are_asked_in_a_namespace_of_their_own_which_is_gone_afterwards"),
        ("The expected document of 85 % of the questions is found", _GOLDEN),
        ("There are eight unit tests or more", "tests/unit/fusion/test_thresholds.py::test_a_hit_below_the_threshold_of_its_branch_counts_as_not_found_by_the_branch"),
        _of(_FARM, "The whole service is tested in containers", "tests/acceptance/deploy/test_compose.py::test_the_command_of_each_service_exists", lacks="the tests read the compose file and start no container"),
        ("The code is checked by a linter", _FLOORS),
        ("A missing index is a clear error", "an_index_that_is_not_there_is_a_clear_error"),
        ("A missing passage is skipped with a warning", "a_passage_that_is_not_there_is_skipped_with_a_warning_and_the_next_one_comes"),
        ("An empty query is answered at once with nothing", "an_empty_query_is_answered_at_once_with_nothing"),
        ("No domains mean all of them", "no_domains_mean_all_of_them"),
        ("95 of 100 answers come within 500 ms", _IN_TIME),
        ("What is searched can be replaced", "what_is_searched_may_be_ones_own"),
        ("The log has the caller's correlation id", "the_log_has_the_id_of_the_caller"),
        ("A golden file may be one's own", _OWN_GOLDEN),
        ("The domains are a closed list", "tests/integration/tasks/test_closed_values.py::test_a_wrong_value_is_refused_in_a_document_and_in_a_filter_with_the_values_that_there_are", "a_domain_that_no_document_has_is_a_warning"),
    ),
    _system(
        "The two-stage retriever",
        _STAGES,
        ("A cross-encoder orders what a coarse search found", _COARSE),
        ("The coarse search finds 100", _COARSE),
        ("The cross-encoder orders 50", _COARSE),
        ("A request chooses both numbers", "coarse_top_k_and_rerank_top_k_are_chosen_by_request"),
        ("A request chooses whether it is reranked", "use_reranking_is_chosen_by_request"),
        ("Each hit names its stage", _COARSE, "an_exception_of_the_reranker_leaves_the_coarse_order"),
        _of(_STAGES, "A score is .3 of the coarse one and .7 of the reranked one", _BLEND, lacks="the reranked score is a sigmoid, which keeps its meaning from one question to another, and no minimum and maximum"),
        ("Scores are from 0 to 1", _BLEND),
        ("Hits are sorted by score", _BLEND),
        ("An exception leaves the coarse order", "an_exception_of_the_reranker_leaves_the_coarse_order"),
        ("A model that does not load leaves the coarse order", "a_model_that_does_not_load_leaves_the_coarse_order", f"{_INSTALLED}/test_up.py::test_without_its_rerankers_model_it_serves_the_fused_order_and_says_so"),
        ("A slow reranker scores fewer candidates", "a_slow_reranker_scores_fewer_candidates"),
        _of(_STAGES, "A GPU is used if there is one", "tests/unit/inference/test_onnx_devices.py::test_a_model_runs_on_cuda_if_onnx_runtime_has_it_and_the_log_says_so", lacks="the test replaces the GPU; no test computes on one"),
        Line("BAAI/bge-large-en-v1.5 reranks", (), "the model is an encoder without a reranking head, and is refused by name"),
        _of(_STAGES, "Two encoders of 384 and 1,024 dimensions search one corpus", "tests/integration/tasks/test_two_encoders.py::test_each_branch_of_vectors_finds_by_the_cosines_of_its_own_encoder", lacks="no test has two models of these dimensions"),
        ("The embedding of a query is kept", "the_embedding_of_a_query_is_kept"),
        Line("50 pairs are reranked in 150 ms", (), "a 6-layer model on two cores scores 3 pairs in that time, in int8 6"),
        _of(_STAGES, "The whole search takes less than 200 ms", _IN_TIME, lacks="the test has no reranker and asserts 500 ms; with one it scores as many pairs as its budget allows"),
        ("The coarse search takes less than 20 ms", _IN_TIME),
        Line("Reranking gains more than 15 % of relevance", (), "with FeedbackQA the fusion of scores gains 14.3 % on the vectors; no published cross-encoder was measured"),
        _of(_STAGES, "Recall is over .9 and nDCG over .85", _GOLDEN, lacks="nDCG of the golden suite is .836 with `rrf`"),
        ("The best hits of the coarse search are never lost", _COARSE, "tests/unit/fusion/test_rerank.py::test_the_score_never_rises_with_the_rank_and_no_hit_is_lost"),
        ("The hybrid search is an HTTP route", _BASELINE),
        ("The search by vectors alone is an HTTP route", _BASELINE),
        ("Results are filtered by agent", "results_are_filtered_by_agent"),
        ("The answer repeats query, both numbers, whether it was reranked, and the method", "the_answer_repeats_the_query_the_method_and_whether_it_was_reranked", "the_answer_repeats_top_k_both_depths_and_the_use_of_the_reranker"),
        _of(_STAGES, "Two configurations are compared on judged questions", "two_configurations_are_compared_on_judged_questions", lacks="the test has three questions"),
        ("A model is loaded only where it is needed", "a_reranker_that_no_worker_needs_is_not_loaded"),
        ("Each stage has its time", "each_stage_has_its_time"),
    ),
    _system(
        "The late-fusion engine",
        _LATE,
        ("Sources are asked at the same time", _TOGETHER, "sources_are_asked_side_by_side"),
        ("A source that fails does not block the others", "one_source_that_fails_does_not_block_the_others", "a_recorded_error_of_wikipedia_costs_its_branch_although_its_status_is_200"),
        ("A cosine is clamped and BM25 divided by 20", "bm25_is_divided_by_20_over_http_too_if_the_branch_declares_it_and_a_cosine_is_clamped", "declared_bm25_scores_count_from_0_with_min_max"),
        ("A score is the weighted mean over the sources that found it", _MEAN),
        ("Weights are .4, .4, .15, .05, .05, and otherwise .1", "the_sources_weigh_two_fifths_twice_15_5_and_5_hundredths_and_an_unknown_one_a_tenth"),
        ("A score rises by a fifth for each source, and at most doubles", _MEAN, "every_source_counts_for_the_boost_with_the_shipped_pipeline_too"),
        ("A score is at most 1", _MEAN),
        ("The two examples have .661 and .588", "the_two_fixed_cases"),
        _of(_LATE, "Results are grouped by document", "results_are_grouped_by_document", lacks="the test gives the fusion rankings that are made by hand"),
        ("A result has content, title, score, type and metadata", _ONE_RESULT),
        ("The answer has fused content, confidence, time, query, strategy and moment", _FUSED_ANSWER),
        ("A snippet fits the query", _ONE_RESULT),
        ("A result names its sources and their scores", "a_result_names_what_its_sources_gave_it"),
        _of(_LATE, "The answer has a confidence", _FUSED_ANSWER, lacks="the test asserts only that it is from 0 to 1"),
        ("The answer has its processing time", _FUSED_ANSWER),
        ("Two sources at the same time are 1.6 times as fast as one after the other", _FASTER),
        ("A request chooses the strategy", _CHOSEN),
        ("A request chooses the sources", _CHOSEN),
        ("A request chooses the number of results", _CHOSEN),
        ("The answer says which share of its hits several sources found", "the_coverage_is_the_share_of_hits_that_several_sources_found"),
        ("A knowledge graph, Wikipedia and Wikidata are weighted sources", "a_knowledge_graph_wikipedia_and_wikidata_stand_in_one_ranking_with_the_texts", "an_entry_of_wikipedia_has_its_title_its_snippet_and_its_moment", "a_recorded_search_of_wikipedia_is_read_in_its_order", "an_entity_of_wikidata_has_its_label_its_description_and_its_address"),
        ("An engine can be added", "an_engine_of_ones_own_is_a_source", "tests/integration/tasks/test_other_sources.py::test_a_package_s_store_kind_and_method_work_together"),
        Line("Paraphrases of a document are folded into it", (), "texts are folded by their words"),
        ("Near-duplicates are folded", _FOLDED, "tests/unit/tasks/test_indexing.py::test_near_duplicates_are_grouped_in_a_batch_and_across_batches_and_interrupted_runs"),
        ("Weights follow the type of the question", "weights_follow_the_type_of_the_question"),
        ("Weights are learned from the feedback of users", "tests/integration/tasks/test_adapting.py::test_enough_new_grades_change_the_weights_of_a_running_installation_and_a_command_takes_them_back"),
        ("The engine watches its results and adapts its weights while it runs", "tests/integration/tasks/test_adapting.py::test_enough_new_grades_change_the_weights_of_a_running_installation_and_a_command_takes_them_back", "tests/integration/tasks/test_adapting.py::test_interleaved_weights_are_taken_once_people_prefer_them"),
        ("Two strategies are compared on live requests", "tests/integration/api/test_console_interleaving.py::test_feedback_of_the_keys_tenant_says_which_configuration_is_better", "tests/integration/tasks/test_shadows.py::test_pairs_are_compared_from_the_trail"),
        Line("A snippet is chosen by meaning", (), "snippets are chosen by words"),
        ("A snippet marks the words of the query", _ONE_RESULT),
        ("Each source has its own line with time and number of hits", "each_source_has_a_line_of_its_own_with_its_time_and_its_number_of_hits"),
    ),
)  # fmt: skip
"""The systems, and their promises in the order in which each made them."""


def numbered() -> Iterator[tuple[str, Line]]:
    """The lines with their numbers, such as 4.17 for the 17th promise of the fourth system."""
    for place, system in enumerate(SYSTEMS, start=1):
        for number, line in enumerate(system.lines, start=1):
            yield f"{place}.{number}", line


_HEAD = """# What five earlier systems promised

Chorale takes the place of five systems.  Each row is a promise of one of them.  [first_systems.py](first_systems.py) names the tests of each
row; `python -m docs.evidence.first_systems` writes this page.

- *Met*: nothing is known to be lacking.  *In part*, *not reached*: the row says what the product or the test lacks.
- `make test-all TESTS="FILE::TEST"` runs the tests of a row.
- With `CHORALE_TEST_RECORD=1` the tests write their figures to [first_systems.json](first_systems.json).
"""


def first_systems_page() -> str:
    """The whole page as Markdown."""
    lines = dict(numbered())
    figures: dict[str, str] = json.loads(FIGURES.read_text(encoding="utf-8"))
    states = Counter(line.state for line in lines.values())
    counted = ", ".join(f"{states[state]} {state}" for state in ("met", "in part", "not reached"))
    parts = [_HEAD, f"\nOf {len(lines)} promises: {counted}.\n"]
    for place, system in enumerate(SYSTEMS, start=1):
        parts.append(
            f"\n## {place}. {system.name}\n\n| | promise | state | tests | figure |\n|---|---|---|---|---|\n"
        )
        for number, line in numbered():
            if number.partition(".")[0] == str(place):
                state = f"{line.state}: {line.lacks}" if line.lacks else line.state
                tests = "<br>".join(f"`{test}`" for test in line.tests)
                parts.append(
                    f"| {number} | {line.promise} | {state} | {tests} | {figures.get(number, '')} |\n"
                )
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(first_systems_page(), encoding="utf-8")
