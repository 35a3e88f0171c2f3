"""Two cells: each is a Redis with workers of its own, and both search the same documents."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import pytest
from chorale_client import Answer, Cells, ServiceUnavailable, UnknownRequest
from chorale_client.keys import ENTRY

from tests.support.faults.serving import serving
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

WORKER = ",".join(f"chorale.{name}" for name in ("retrieve", "bm25", "vector", "hyde", "fusion", "index"))
"""The one worker of a cell."""
QUESTIONS = [f"Who pays for repair {number}?" for number in range(12)]

pytestmark = [pytest.mark.slow, pytest.mark.limit_s(600)]


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningPipeline]]:
    folder = tmp_path_factory.mktemp("cells")
    with ExitStack() as stack:
        yield {name: stack.enter_context(_cell(name, folder, stack)) for name in ("a", "b")}


def _cell(name: str, folder: Path, stack: ExitStack) -> AbstractContextManager[RunningPipeline]:
    environment = {
        "CHORALE_HOME": str(folder / "home"),
        "CHORALE_AUDIT_URL": f"sqlite:///{folder}/{name}.db",
        "CHORALE_SHARED_DOCUMENTS": "true",
    }
    return serving([WORKER], server=stack.enter_context(RedisServer()), environment=environment)


@pytest.fixture
def cells(pipelines: dict[str, RunningPipeline]) -> Iterator[Cells]:
    with closing(Cells({name: pipeline.client() for name, pipeline in pipelines.items()})) as cells:
        yield cells


def cell_of(request_id: str) -> str:
    return request_id.rpartition(".")[2]


def test_each_cell_answers_its_share_and_the_id_finds_the_answer(cells: Cells) -> None:
    sent = [cells.send(question, timeout_s=30) for question in QUESTIONS]
    assert {cell_of(request_id) for request_id in sent} == {"a", "b"}
    for request_id in sent:
        assert cells.of(request_id).answer(request_id, wait_s=30).status == "complete"
    with pytest.raises(UnknownRequest, match="there are: a, b"):
        cells.of("r-1")


def test_an_equal_question_goes_to_the_same_cell_which_has_its_answer_in_the_cache(cells: Cells) -> None:
    for question in QUESTIONS[:4]:
        first, second = (cells.retrieve(question, timeout_s=30) for _ in range(2))
        assert second.cached
        assert cell_of(first.request_id) == cell_of(second.request_id)


def test_documents_that_one_cell_writes_are_found_in_the_other_although_it_has_cached_an_answer(
    cells: Cells,
) -> None:
    writer = cells.writer("docs")
    (reader,) = (cell for cell in map(cells.of, ("x.a", "x.b")) if cell is not writer)

    def write(name: str) -> None:
        ticket = writer.upsert("docs", [{"id": name, "title": name, "text": f"The {name} is moored here."}])
        assert writer.wait_visible(ticket, wait_s=60).is_whole

    def search() -> Answer:
        return reader.retrieve("What is moored here?", namespace="docs", timeout_s=30)

    write("zeppelin")
    until(lambda: search().cached)
    write("balloon")
    until(lambda: "balloon" in {hit.document_id for hit in search().hits})


@pytest.mark.parametrize("loss", ["killed", "silent"])
def test_a_lost_cell_costs_the_requests_that_it_has_accepted_and_no_new_one(
    cells: Cells, pipelines: dict[str, RunningPipeline], loss: str
) -> None:
    lost = pipelines["b"]
    cell_of_each = [cell_of(cells.retrieve(question, timeout_s=30).request_id) for question in QUESTIONS]
    its_share = cell_of_each.count("b")
    lost.pause(WORKER)
    with ThreadPoolExecutor(len(QUESTIONS)) as threads:
        asked = [
            threads.submit(cells.retrieve, question, timeout_s=12, cache="bypass") for question in QUESTIONS
        ]
        until(lambda: len(set(lost.redis.scan_iter(f"{ENTRY}*.b"))) == its_share)
        lost.server.kill() if loss == "killed" else lost.server.pause()
        errors = [one.exception() for one in asked]
    # The accepted requests of the lost cell end with this error; everybody else has an answer.
    assert [type(error) for error in errors if error] == [ServiceUnavailable] * its_share
    assert {cell_of(one.result().request_id) for one in asked if not one.exception()} == {"a"}
    for question in QUESTIONS:
        answer = cells.retrieve(question, timeout_s=30, cache="bypass")
        assert (answer.status, cell_of(answer.request_id)) == ("complete", "a")

    lost.server.start() if loss == "killed" else lost.server.resume()
    lost.resume(WORKER)
    until(lambda: {cell_of(cells.send(question)) for question in QUESTIONS} == {"a", "b"}, 60)
