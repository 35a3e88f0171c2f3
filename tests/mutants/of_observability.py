"""Promises about traces, metrics and logs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TRACING = "monitoring/tracing.py"
_COUNTING = "monitoring/counting.py"
_OF_TRACES = "tests/unit/monitoring/test_tracing.py"
_OF_COUNTS = "tests/unit/monitoring/test_counting.py"

PROMISES = (
    Mutant(
        "One trace leads from the caller's span to each branch and the fusion",
        _TRACING,
        '        carrier = {"traceparent": one.request.get("traceparent") or ""}',
        '        carrier = {"traceparent": ""}',
        f"{_OF_TRACES}::test_every_span_belongs_to_the_caller_s_trace",
    ),
    Mutant(
        "The fusion's span is a child of the request and linked to all branches",
        _TRACING,
        "            links=[Link(span.get_span_context()) for span in branches],",
        "            links=[Link(span.get_span_context()) for span in branches[:1]],",
        f"{_OF_TRACES}::test_the_fusion_is_linked_to_every_branch",
    ),
    Mutant(
        "Spans hold texts of questions only if the installation wants it",
        _TRACING,
        "    if with_texts:",
        "    if questions:",
        f"{_OF_TRACES}::test_the_texts_of_questions_are_shown_only_if_the_installation_wants_it",
    ),
    Mutant(
        "A request that is sent again from another span is the same request",
        "client/chorale_client/ledger.py",
        '    not_said = {"traceparent"} if "timeout_s" in request.model_fields_set else {"traceparent", "timeout_s"}',
        '    not_said = set() if "timeout_s" in request.model_fields_set else {"timeout_s"}',
        "tests/unit/client/test_tracing.py::test_the_same_request_may_be_sent_again_from_another_span",
    ),
    Mutant(
        "No label of a metric has a value that a caller chose",
        _COUNTING,
        "    return branch if branch in branches else OTHER",
        "    return branch",
        f"{_OF_COUNTS}::test_no_text_of_a_caller_becomes_a_label",
    ),
    Mutant(
        "Every ended request is in the histogram of its outcome",
        _COUNTING,
        "    _observe(counts, REQUEST, [status], ended.ended_at_ms - ended.accepted_at_ms)",
        '    _observe(counts, REQUEST, [status], ended.answer.get("took_ms", 0.0))',
        f"{_OF_COUNTS}::test_a_request_falls_into_the_bucket_of_its_time_and_adds_to_the_sum",
    ),
    Mutant(
        "Every ended request leaves one line of the log, as JSON, without texts",
        "monitoring/request_log.py",
        '            questions=[question.get("text") for question in questions],',
        '            asked_for=[question.get("text") for question in questions],',
        "tests/unit/monitoring/test_request_log.py::test_the_texts_of_questions_are_logged_only_if_the_installation_wants_it",
    ),
)
