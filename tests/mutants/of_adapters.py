"""Promises about the adapters for other frameworks, and about `chorale mcp`."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROMISES = (
    Mutant(
        "The asynchronous call of an adapter never blocks the event loop, and finds what the synchronous call finds",
        "client/chorale_client/adapters/llama_index.py",
        "        return _nodes(await self._connection.ask_async(_question(query_bundle)))",
        "        return self._retrieve(query_bundle)",
        "tests/integration/adapters/test_llama_index.py::TestLlamaIndex::test_the_event_loop_goes_on_while_a_request_waits",
    ),
    Mutant(
        "A branch that failed makes no adapter raise: what the others found comes with the reason",
        "client/chorale_client/coverage.py",
        '    reasons = {one["where"]: one["reason"] for one in missing}',
        "    reasons: dict[str, str] = {}",
        "tests/integration/adapters/test_langchain.py::TestLangChain::test_a_failed_branch_raises_nothing_and_is_named",
    ),
    Mutant(
        "A degraded answer gives a LangGraph node no documents, unless the graph wants what was found",
        "client/chorale_client/adapters/langgraph.py",
        '"on_missing": "empty", ',
        "",
        "tests/integration/adapters/test_langgraph.py::test_a_degraded_answer_is_empty_unless_the_graph_wants_what_was_found",
    ),
    Mutant(
        "Over HTTP, `chorale mcp` serves nobody without a valid key",
        "cli/mcp_over_http.py",
        "        if grant is None:",
        "        if grant is None and kind:",
        "tests/integration/adapters/test_chorale_mcp.py::test_without_a_key_or_with_a_wrong_one_nothing_is_served",
    ),
    Mutant(
        "A tool of `chorale mcp` finds only what the caller's key may find",
        "cli/mcp_over_http.py",
        '        return grant.applied(request.model_copy(update={"request_id": grant.new_id()}))',
        '        return request.model_copy(update={"request_id": grant.new_id()})',
        "tests/integration/adapters/test_chorale_mcp.py::test_a_key_finds_what_it_may_find",
    ),
    Mutant(
        "`fetch` joins the passages of a document in their order",
        "client/chorale_client/adapters/mcp.py",
        "        parts = sorted(found.documents, key=_place)",
        "        parts = list(found.documents)",
        "tests/integration/adapters/test_mcp.py::test_a_document_that_was_found_can_be_fetched_whole",
    ),
)
