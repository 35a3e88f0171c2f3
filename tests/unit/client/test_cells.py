"""Which cell a request goes to, where one of them cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import pytest
from chorale_client import (
    AsyncCells,
    AsyncChorale,
    Cells,
    Chorale,
    InvalidRequest,
    Request,
    ServiceUnavailable,
    UnknownRequest,
)
from chorale_client.request_factory import make_request

LIMIT_S = 5


class Cell:
    """A client that raises this error, or keeps the requests that it gets."""

    def __init__(self, error: ServiceUnavailable | None = None, *, workers: bool = True) -> None:
        self.error = error
        self.workers = workers
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> str:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return request.request_id

    def has_workers(self) -> bool:
        return self.workers


class AsyncCell:
    """The same for an event loop."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    async def has_workers(self) -> bool:
        return self.cell.has_workers()


Retrieve: TypeAlias = Callable[..., Any]


@pytest.fixture(params=["Cells", "AsyncCells"])
def retrieve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Retrieve:
    """Ask these cells by name, with or without an event loop."""

    async def ask(client: AsyncCell, request: Request, **_: object) -> str:
        return client.cell(request)

    monkeypatch.setattr(Chorale, "ask", lambda cell, request, **_: cell(request))
    monkeypatch.setattr(AsyncChorale, "ask", ask)

    def retrieve(cells: Mapping[str, Cell], question: str, **options: Any) -> Any:
        if request.param == "Cells":
            return Cells(cast("Any", cells)).retrieve(question, **options)
        clients: Any = {name: AsyncCell(cell) for name, cell in cells.items()}
        return asyncio.run(AsyncCells(clients).retrieve(question, **options))

    return retrieve


def first_and_second(retrieve: Retrieve, question: str) -> tuple[str, str]:
    """The names of the cells in the order in which the question goes to them."""
    both = {name: Cell(ServiceUnavailable("no reply")) for name in ("a", "b")}
    with pytest.raises(ServiceUnavailable):
        retrieve(both, question, timeout_s=LIMIT_S)
    (first,) = (name for name, cell in both.items() if cell.requests[0].timeout_s == LIMIT_S)
    return first, "ba"["ab".index(first)]


def test_a_request_that_a_cell_refuses_goes_to_the_next_one_in_the_time_that_is_left(
    retrieve: Retrieve,
) -> None:
    first, second = first_and_second(retrieve, "bread")
    lost, other = Cell(ServiceUnavailable("no reply")), Cell()
    request_id = retrieve({first: lost, second: other}, "bread", request_id="r", timeout_s=LIMIT_S)
    assert (request_id, other.requests[0].timeout_s < LIMIT_S) == (f"r.{second}", True)


def test_without_a_time_limit_each_cell_has_its_own_default(retrieve: Retrieve) -> None:
    first, second = first_and_second(retrieve, "bread")
    other = Cell()
    retrieve({first: Cell(ServiceUnavailable("no reply")), second: other}, "bread")
    assert "timeout_s" not in other.requests[0].model_fields_set


def test_a_request_that_a_cell_has_accepted_goes_to_no_other_cell(retrieve: Retrieve) -> None:
    first, second = first_and_second(retrieve, "bread")
    lost, other = Cell(ServiceUnavailable("lost", accepted="r")), Cell()
    with pytest.raises(ServiceUnavailable, match="lost"):
        retrieve({first: lost, second: other}, "bread")
    assert other.requests == []


def test_a_cell_without_workers_gets_a_request_only_if_no_other_cell_has_some(retrieve: Retrieve) -> None:
    first, second = first_and_second(retrieve, "bread")
    idle, other = Cell(workers=False), Cell()
    assert retrieve({first: idle, second: other}, "bread", request_id="r") == f"r.{second}"
    assert idle.requests == []
    # The request ends on time there, and its answer says what was missing.
    assert retrieve({first: idle, second: Cell(workers=False)}, "bread", request_id="r") == f"r.{second}"


def test_a_client_asks_once_a_second_whether_a_cell_has_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, calls = [0.0], list[float]()
    monkeypatch.setattr("chorale_client.cells.time.monotonic", lambda: now_s[0])
    monkeypatch.setattr(Chorale, "ask", lambda cell, request, **_: cell(request))

    def has_workers(_: Cell) -> bool:
        calls.append(now_s[0])
        return True

    monkeypatch.setattr(Cell, "has_workers", has_workers)
    cells = Cells(cast("Any", {"a": Cell(), "b": Cell()}))
    for now_s[0] in (0.0, 0.5, 0.9, 1.0, 1.5):
        cells.retrieve("bread")
    assert calls == [0.0, 1.0]


def test_an_id_names_its_cell_after_a_dot(retrieve: Retrieve) -> None:
    cell = Cell()
    cells = Cells(cast("dict[str, Chorale]", {"a": cell}))
    assert cast("Any", cells.of("r-1.a")) is cell
    for request_id in ("r-1", "a", "r-1.b"):
        with pytest.raises(UnknownRequest, match="there are: a"):
            cells.of(request_id)
    with pytest.raises(InvalidRequest, match="request_id"):
        retrieve({"a": cell}, "bread", request_id="r" * 128)


def test_one_request_at_a_time_tries_a_cell_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("chorale_client.cells.time.monotonic", lambda: now_s[0])
    lost, other = Cell(ServiceUnavailable("lost")), Cell()
    monkeypatch.setattr(Chorale, "ask", lambda cell, request, **_: cell(request))
    cells = Cells(cast("Any", {"a": lost, "b": other}))
    question = next(text for text in map(str, range(99)) if _first(cells, text) == "a")
    cells.retrieve(question)
    now_s[0] = 3.0

    def meanwhile(request: Request) -> str:
        lost.requests.append(request)
        cells.retrieve(question)  # it goes to the other cell
        raise ServiceUnavailable("lost")

    monkeypatch.setattr(
        Chorale, "ask", lambda cell, request, **_: meanwhile(request) if cell is lost else other(request)
    )
    cells.retrieve(question)
    assert (len(lost.requests), len(other.requests)) == (2, 3)


def _first(cells: Cells, question: str) -> str:
    """The name of the cell that gets this question first."""
    return cells._order(make_request(question))[0]


def test_the_cells_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_CELLS", "a=redis://127.0.0.1:1/0,b=redis://127.0.0.1:2/0")
    cells = Cells()
    assert isinstance(cells.of("r.a"), Chorale)
    assert cells.of("r.a") is not cells.of("r.b")
    cells.close()


def test_an_id_in_a_sole_cell_without_a_name_stays_as_it_is(retrieve: Retrieve) -> None:
    cell = Cell()
    assert retrieve({"": cell}, "bread", request_id="r.x") == "r.x"
    assert cast("Any", Cells(cast("dict[str, Chorale]", {"": cell})).of("r.x")) is cell


def test_a_wrong_name_and_no_cell_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_CELLS", "")
    for cells, complaint in (
        (None, "there is no cell"),
        ({}, "there is no cell"),
        ({"A.1": Cell()}, "lower-case letters and digits; not 'A.1'"),
        ({"": Cell(), "a": Cell()}, "lower-case letters and digits; not ''"),
    ):
        with pytest.raises(ValueError, match=complaint):
            Cells(cast("Any", cells))
