"""Promises about reranking."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROMISES = (
    Mutant(
        "A request waits for a reranker that hangs no longer than the reranking budget",
        "inference/reranking/pair_reranker.py",
        "self._thread.run(job, limit_s=left_s)",
        "self._thread.run(job)",
        "tests/integration/tasks/test_reranking.py::test_a_reranker_that_hangs_costs_its_budget_and_the_next_request_does_not_wait_for_it",
    ),
    Mutant(
        "A reranker that answers nonsense costs only the reranked order, and the answer says why",
        "inference/reranking/pair_reranker.py",
        "if not all(logit is None or isfinite(logit) for logit in logits):",
        "if False:",
        "tests/unit/inference/test_rerankers.py::test_a_model_that_answers_nan_is_an_invalid_answer",
    ),
    Mutant(
        "A reranker that becomes slow scores fewer candidates, and scores all of them again when it recovers",
        "inference/reranking/pair_speed.py",
        "left_s = HEADROOM * limit_s",
        "left_s = 1e9",
        "tests/unit/inference/test_reranker_speed.py::test_a_model_slowed_ten_times_scores_a_few_pairs_and_all_fifty_when_it_recovers",
    ),
    Mutant(
        "The score never rises with the rank, and no hit is lost",
        "fusion/rerank.py",
        "score = min(significant(shares[at]), hits[-1].score) if above else hit.score",
        "score = significant(shares[at]) if above else hit.score",
        "tests/unit/fusion/test_rerank.py::test_the_score_never_rises_with_the_rank_and_no_hit_is_lost",
    ),
    Mutant(
        "A reranking model without all its weights is refused",
        "inference/reranking/onnx_reranker.py",
        "if name not in stored:",
        "if False:",
        "tests/unit/inference/test_rerankers.py::test_an_incomplete_cross_encoder_is_refused_and_the_message_says_why",
    ),
    Mutant(
        "However slow a reranker was, it is tried again",
        "inference/reranking/pair_speed.py",
        "return max(1, count)",
        "return count",
        "tests/unit/inference/test_reranker_speed.py::test_one_pair_is_tried_even_if_the_model_was_slow",
    ),
    Mutant(
        "The time for reranking is still left when a request stops waiting for its branches",
        "tasks/request/planning.py",
        "reranker.budget_ms if reranker else 0",
        "0",
        "tests/unit/tasks/test_planning.py::test_a_declared_reranker_is_in_the_plan_and_its_budget_is_kept_for_the_fusion",
    ),
    Mutant(
        "An answer that another reranker ordered is never given again",
        "tasks/request/reranking.py",
        'return plan.model_copy(update={"models": {**plan.models, "reranker": mark}})',
        "return plan",
        "tests/unit/tasks/test_reranking.py::test_the_plan_names_the_rerankers_fingerprint_and_is_not_cached_without_it",
    ),
    Mutant(
        "An answer that a worker with another model reranked is not cached",
        "tasks/request/reranking.py",
        "if planned != reranker.fingerprint and (why is None or why.reason == Reason.ADAPTIVE):",
        "if False:",
        "tests/unit/tasks/test_reranking.py::test_a_plan_for_another_model_is_reranked_and_not_cached",
    ),
    Mutant(
        "A reranker that cannot be loaded ends no worker, and the answer says why",
        "inference/reranking/pair_reranker.py",
        'raise ModelMissing(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error',
        "raise",
        "tests/unit/inference/test_rerankers.py::test_wrong_files_are_a_missing_model_and_repaired_ones_load",
    ),
    Mutant(
        "No request waits for a model hub",
        "inference/reranking/pair_reranker.py",
        "model_folder(self.name, (), self.trust, is_local=True)",
        "model_folder(self.name, (), self.trust)",
        "tests/unit/inference/test_rerankers_of_the_hub.py::test_fingerprint_and_warm_never_wait_for_a_silent_hub",
    ),
    Mutant(
        "A request with many questions keeps time to fuse each of them and to show its hits",
        "tasks/request/planning.py",
        "rerank_budget_ms + 100.0 + further_ms",
        "rerank_budget_ms + 100.0",
        "tests/unit/tasks/test_planning.py::test_further_questions_are_given_time_to_be_fused_and_shown",
    ),
    Mutant(
        "After a stall the reranker soon scores as many candidates as before",
        "inference/reranking/pair_speed.py",
        "if self._runs - self._last_run[known] <= FORGOTTEN_AFTER",
        "if True",
        "tests/unit/inference/test_reranker_speed.py::test_a_stall_during_warming_is_forgotten_although_no_short_pair_follows",
    ),
)
