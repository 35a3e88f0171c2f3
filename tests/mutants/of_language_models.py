"""Promises about hypotheses, rewrites and variants."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROMISES = (
    Mutant(
        "A failed hypothesis never becomes a second copy of `vector`",
        "branches/kinds/hyde.py",
        "        one if index in imagined or index in passages else {}",
        "        one",
        "tests/integration/tasks/test_language_models.py::test_hyde_does_not_repeat_the_vector_branch_for_a_question_without_documents_or_passages",
    ),
    Mutant(
        "A language model that fails is named, and feedback stands in where the pipeline declares it",
        "fusion/answered.py",
        "            missing.extend(envelope.degraded)",
        "            pass",
        "tests/integration/tasks/test_language_models.py::test_feedback_replaces_a_model_that_fails_and_the_answer_says_so",
    ),
    Mutant(
        "A slow language model costs at most its limit, however slowly its answer trickles in",
        "inference/language_models/chat_model.py",
        "        wait(jobs, timeout=timeout_s)",
        "        wait(jobs)",
        "tests/integration/inference/test_openai_generator.py::test_a_slow_endpoint_costs_no_more_than_the_limit",
    ),
    Mutant(
        "For a question that is an identifier no language model is asked, and the answer is complete",
        "branches/language_model.py",
        "        if rule is not None:",
        "        if False:",
        "tests/integration/tasks/test_language_models.py::test_the_model_is_not_asked_about_an_identifier_and_the_answer_is_complete",
    ),
    Mutant(
        "No error contains the key of a language model",
        "inference/language_models/chat_model.py",
        '            text = text.replace(self._secret, "***")',
        "            pass",
        "tests/integration/inference/test_openai_generator.py::test_the_endpoint_s_message_about_a_wrong_request_is_shown_without_the_key",
    ),
    Mutant(
        "A configuration can have its own time limit",
        "tasks/worker/warming.py",
        "        publish_timeouts(resources.redis, resources.pipeline.timeouts_s)",
        "        publish_timeouts(resources.redis, {})",
        "tests/integration/tasks/test_language_models.py::test_a_configuration_may_set_a_longer_timeout_for_its_model",
    ),
    Mutant(
        "A language model that failed lately is not asked",
        "branches/language_model.py",
        "        if found is None or breakers.claim(part.request.request_id, [name], timeout_s=allowed_s):",
        "        if True:",
        "tests/integration/tasks/test_language_models.py::test_a_model_with_an_open_breaker_is_not_asked",
    ),
    Mutant(
        "The failure of a language model counts against no store",
        "ledger/outcomes.py",
        "        if envelope is not None and ended_before_its_store(envelope):",
        "        if False:",
        "tests/unit/ledger/test_outcomes.py::test_a_language_model_counts_neither_for_nor_against_the_branch_and_its_store",
    ),
    Mutant(
        "Variants keep the score scale of their branch",
        "fusion/question_variants.py",
        "    unit = next((top for top in tops if top > 0), 0.0) / math.fsum(weights)",
        "    unit = 1.0",
        "tests/unit/fusion/test_question_variants.py::test_bm25_sums_the_scores_of_all_texts_on_the_first_ones_scale",
    ),
)
