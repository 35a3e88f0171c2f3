"""Promises about answers that are given again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROMISES = (
    Mutant(
        "A degraded answer is never given again as a complete one",
        "tasks/request/answer_cache.py",
        'if questions[index]["status"] == Status.COMPLETE and not _is_reranked_in_part',
        "if not _is_reranked_in_part",
        "tests/integration/tasks/test_asked_before.py::test_a_degraded_answer_is_never_cached",
    ),
    Mutant(
        "A cached answer is never older than the corpus",
        "tasks/request/answer_cache.py",
        'if answer is not None and (known := from_json(answer))["generation"] == plan.generation:',
        "if answer is not None and (known := from_json(answer)):",
        "tests/integration/tasks/test_asked_before.py::test_an_answer_is_not_used_if_the_generation_rose_after_its_search",
    ),
    Mutant(
        "An answer is not cached if one of its branches searched another generation of the corpus",
        "tasks/request/answer_cache.py",
        "    if plan.generation is None or any(generation != plan.generation for generation in searched):",
        "    if plan.generation is None:",
        "tests/integration/tasks/test_asked_before.py::test_an_answer_is_not_cached_if_a_branch_searched_another_generation",
    ),
    Mutant(
        "No namespace ever sees another's documents, not even through the cache",
        "cache/answer_key.py",
        "    same = {**question,",
        '    namespace = ""\n    same = {**question,',
        "tests/integration/tasks/test_asked_before.py::test_a_cached_answer_is_never_given_in_another_namespace",
    ),
    Mutant(
        "No answer that was cached before a restore counts after it",
        "search/embedded/snapshot.py",
        "            writer.raise_generation(name, generation + 1)",
        "            pass",
        "tests/integration/cli/commands/test_backup.py::test_no_answer_cached_before_a_restore_is_served_after_it",
    ),
    Mutant(
        "If Redis was away during a restore, its cached answers of the newer corpus do not count",
        "tasks/worker/warming.py",
        "                _rise_beyond(resources, state.name)",
        "                pass",
        "tests/integration/cli/commands/test_restored_over_a_newer_redis.py::test_no_answer_of_the_newer_corpus_is_served",
    ),
    Mutant(
        "The cache gives no answer of a namespace that is gone",
        "assembly/generations.py",
        "            if told >= agreed if agreed is not None else not self._is_in_file:",
        "            if True:",
        "tests/integration/cli/commands/test_restored_over_a_newer_redis.py::test_no_answer_of_the_newer_corpus_is_served",
    ),
)
