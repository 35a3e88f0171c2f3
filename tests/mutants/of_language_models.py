"""Mutants of hypotheses, rewrites and variants."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PIPELINE = "tests/integration/tasks/test_language_models.py"
_GENERATOR = "tests/integration/inference/test_openai_generator.py"

MUTANTS = (
    Mutant(
        "no second copy of vector",
        "branches/kinds/hyde.py",
        "        one if index in imagined or index in passages else {}",
        "        one",
        f"{_PIPELINE}::test_a_question_without_documents_or_passages_is_no_second_copy_of_vector",
    ),
    Mutant(
        "a model that fails is named",
        "fusion/answered.py",
        "            missing.extend(envelope.degraded)",
        "            pass",
        f"{_PIPELINE}::test_feedback_stands_in_for_a_model_that_fails_and_the_answer_says_so",
    ),
    Mutant(
        "a slow model costs its limit alone",
        "inference/chat_model.py",
        "        wait(jobs, timeout=timeout_s)",
        "        wait(jobs)",
        f"{_GENERATOR}::test_a_slow_endpoint_costs_no_more_than_the_limit",
    ),
    Mutant(
        "an identifier is not asked about",
        "branches/language_model.py",
        "        if rule is not None:",
        "        if False:",
        f"{_PIPELINE}::test_of_an_identifier_the_model_is_not_asked_and_nothing_is_missing",
    ),
    Mutant(
        "the key is shown nowhere",
        "inference/chat_model.py",
        '            text = text.replace(self._secret, "***")',
        "            pass",
        f"{_GENERATOR}::test_what_the_endpoint_says_of_a_wrong_request_is_told_without_the_key",
    ),
    Mutant(
        "a configuration has its own time",
        "tasks/worker/warming.py",
        "        publish_timeouts(resources.redis, resources.pipeline.timeouts_s)",
        "        publish_timeouts(resources.redis, {})",
        f"{_PIPELINE}::test_a_configuration_with_a_model_has_its_own_time",
    ),
    Mutant(
        "a model that failed lately is not asked",
        "branches/language_model.py",
        "        if found is None or breakers.claim(part.request.request_id, [name], timeout_s=allowed_s):",
        "        if True:",
        f"{_PIPELINE}::test_a_model_that_failed_lately_is_not_asked",
    ),
    Mutant(
        "a model is not its store",
        "ledger/outcomes.py",
        "        if envelope is not None and ended_before_its_store(envelope):",
        "        if False:",
        "tests/unit/ledger/test_outcomes.py::"
        "test_a_language_model_counts_neither_for_nor_against_the_branch_and_its_store",
    ),
    Mutant(
        "variants keep the scale",
        "fusion/variants.py",
        "    unit = next((top for top in tops if top > 0), 0.0) / math.fsum(weights)",
        "    unit = 1.0",
        "tests/unit/fusion/test_variants.py::test_bm25_sums_what_each_text_says_on_the_first_ones_scale",
    ),
)
