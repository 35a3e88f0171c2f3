"""The MCP server, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from chorale_client import InvalidRequest, Request
from chorale_client.adapters.mcp import mcp_server
from chorale_client.default_timeout import publish_timeouts
from mcp import Client
from mcp_types import CallToolResult
from redis import Redis

from tests.contracts.adapter import QUESTION, AdapterAnswer, AdapterContract, patient
from tests.support.pipelines.pipeline import CORPUS, RunningPipeline
from tests.support.servers.redis_server import RedisServer, free_port

HEALTHY: Any = patient(branches=["bm25", "vector"])


class TestMcp(AdapterContract):
    def ask(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        return asyncio.run(self.ask_async(url, question, **options))

    async def ask_async(self, url: str, question: str, **options: Any) -> AdapterAnswer:
        called = await call(url, "chorale_search", {"query": question}, **options)
        assert not called.is_error, called.content
        result = content(called)
        documents = [(one["id"], one["text"], one["score"]) for one in result["results"]]
        return AdapterAnswer(documents, result["coverage"])

    def test_a_wrong_option_and_a_redis_that_is_away_are_errors(self, pipeline: RunningPipeline) -> None:
        """A tool's error is a result that the model reads."""
        wrong = asyncio.run(
            call(pipeline.server.url, "chorale_search", {"query": "x", "filters": {"a": {"b": 1}}})
        )
        assert "no operator 'b'; there are: gt, gte" in error(wrong)
        away = asyncio.run(call(f"redis://127.0.0.1:{free_port()}/0", "search", {"query": "x"}))
        assert error(away) == "Error executing tool search: Chorale does not answer; ask again later"


async def call(url: str, tool: str, arguments: dict[str, Any], **options: Any) -> CallToolResult:
    async with Client(mcp_server(url, options=options)) as client:  # type: ignore[arg-type]
        return await client.call_tool(tool, arguments)


def content(result: CallToolResult) -> dict[str, Any]:
    """The structured content, which the text repeats."""
    assert not result.is_error, result.content
    assert result.structured_content is not None
    (text,) = result.content
    assert json.loads(text.text) == result.structured_content  # type: ignore[union-attr]
    return dict(result.structured_content)


def error(result: CallToolResult) -> str:
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]


LONG = " ".join(f"Paragraph {number} of the handbook says something else." for number in range(100))


@pytest.fixture(scope="module")
def handbook(pipeline: RunningPipeline) -> RunningPipeline:
    """The pipeline with a document of many passages."""
    document = {"id": "books/hand book.md", "title": "Handbook", "text": LONG, "metadata": {"year": 2019}}
    client = pipeline.client()
    assert client.wait_visible(client.upsert("books", [document])).is_whole
    return pipeline


def test_a_document_that_was_found_can_be_fetched_whole(handbook: RunningPipeline) -> None:
    async def search_and_fetch() -> tuple[dict[str, Any], dict[str, Any]]:
        async with Client(mcp_server(handbook.server.url, options=HEALTHY, namespaces=["books"])) as client:
            answer = content(await client.call_tool("search", {"query": "paragraph of the handbook"}))
            best = answer["results"][0]
            return best, content(await client.call_tool("fetch", {"id": best["id"]}))

    best, fetched = asyncio.run(search_and_fetch())
    assert best == {
        "id": "books/hand book.md",
        "title": "Handbook",
        "url": "chorale://books/books%2Fhand%20book.md",
    }
    assert {name: fetched[name] for name in best} == best
    assert fetched["text"].split() == LONG.split()
    assert fetched["metadata"]["year"] == 2019
    assert fetched["metadata"]["passages"] > 3


def test_an_unknown_document_is_an_error_and_says_what_is_missing(pipeline: RunningPipeline) -> None:
    unknown = asyncio.run(call(pipeline.server.url, "fetch", {"id": "nothing"}, **HEALTHY))
    assert error(unknown) == "Error executing tool fetch: no text of 'nothing' was found"
    unsure = asyncio.run(
        call(pipeline.server.url, "fetch", {"id": "x"}, **patient(branches=["bm25", "raises"]))
    )
    assert error(unsure).endswith("no text of 'x' was found, but these are missing: search.raises: error")


def test_a_document_with_an_address_has_it_as_its_url(pipeline: RunningPipeline) -> None:
    answer = content(asyncio.run(call(pipeline.server.url, "search", {"query": "ERR-4711"}, **HEALTHY)))
    assert answer["results"][0] == {
        "id": "error",
        "title": CORPUS["error"][0],
        "url": "https://example.org/errors/4711",
    }
    assert answer["coverage"]["status"] == "complete"


def test_the_tools_describe_themselves_as_reading_with_a_schema_of_what_they_return() -> None:
    async def listed() -> list[Any]:
        async with Client(mcp_server()) as client:
            return list((await client.list_tools()).tools)

    tools = {one.name: one for one in asyncio.run(listed())}
    assert set(tools) == {"search", "fetch", "chorale_search"}
    for tool in tools.values():
        assert tool.annotations.read_only_hint
        assert "coverage" in tool.output_schema["properties"]
    assert tools["search"].input_schema["required"] == ["query"]
    assert set(tools["chorale_search"].input_schema["properties"]) == {
        "query", "top_k", "filters", "branches", "namespace"
    }  # fmt: skip


def test_no_tool_finds_what_the_filters_of_the_server_leave_out(pipeline: RunningPipeline) -> None:
    options = {**HEALTHY, "filters": {"year": 2020}}

    def called(tool: str, **arguments: Any) -> CallToolResult:
        return asyncio.run(call(pipeline.server.url, tool, arguments, **options))

    for filters in ({}, {"year": {"gte": 2000}}):
        answer = content(called("chorale_search", query=QUESTION, filters=filters))
        assert [one["id"] for one in answer["results"]] == ["error"]
    assert content(called("chorale_search", query=QUESTION, filters={"year": 2024}))["results"] == []
    assert content(called("fetch", id="error"))["metadata"]["year"] == 2020
    assert error(called("fetch", id="bread")).endswith("no text of 'bread' was found")


def test_the_limits_of_a_caller_are_compared_with_the_time_that_the_workers_published(
    redis_server: RedisServer, redis_client: Redis
) -> None:
    requests: list[Request] = []

    def allow(request: Request) -> Request:
        requests.append(request)
        raise InvalidRequest("seen")

    async def search() -> None:
        async with Client(mcp_server(redis_server.url, allow=allow)) as client:
            await client.call_tool("search", {"query": "bread"})

    publish_timeouts(redis_client, {"": 7.0})
    asyncio.run(search())
    assert [one.timeout_s for one in requests] == [7.0]


def test_fetch_asks_no_language_model(pipeline: RunningPipeline) -> None:
    requests: list[Request] = []

    def allow(request: Request) -> Request:
        requests.append(request)
        return request

    async def fetch() -> None:
        async with Client(mcp_server(pipeline.server.url, options=HEALTHY, allow=allow)) as client:
            await client.call_tool("fetch", {"id": "bread"})

    asyncio.run(fetch())
    (question,) = requests[0].questions
    assert question.hypothetical_documents == ("bread",)
    assert {one.kind for one in question.variants} == {"keyword", "semantic"}
