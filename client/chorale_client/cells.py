"""Several cells as one service: each is a Redis with workers and a sweeper of its own, and all search the same documents.

A cell that cannot be reached costs the requests that it has accepted.  New requests go to the other cells, and so they do if all
workers of a cell are lost.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import inf
from typing import Generic, NamedTuple, TypeVar, Unpack

from chorale_client.answer import Answer
from chorale_client.client import Chorale, Handle
from chorale_client.connections.urls import BROKER_VARIABLE, CELL, CELLS_VARIABLE, cell_addresses
from chorale_client.errors import InvalidRequest, ServiceUnavailable, UnknownRequest, safe_repr
from chorale_client.events import OnEvent
from chorale_client.ledger import SHORTEST_S
from chorale_client.request import Request, check_identifier
from chorale_client.request_factory import Questions, RequestOptions, make_request

T = TypeVar("T")
Client = TypeVar("Client")

AVOIDED_FOR_S = 2.0
"""New requests avoid a cell for this time after it could not be reached, or had no workers."""
WORKERS_KNOWN_FOR_S = 1.0
"""A client asks the Redis of a cell once in this time whether the cell has workers."""


class Attempt(NamedTuple, Generic[Client]):
    """What one cell gets of a request."""

    name: str
    client: Client
    request: Request
    """The request with the id and the time limit that it has in this cell."""
    context: AbstractContextManager[None]
    needs_workers: bool
    """Whether the client first asks if the cell has workers: its last answer is too old, and another cell can get the request."""


class Placement(Generic[Client]):
    """The clients of the cells by name, and which of them gets a request or the documents of a namespace.

    The name of a sole cell may be empty: ids then stay as they are.  Raises ValueError for a wrong name, and without a cell.
    """

    def __init__(self, cells: Mapping[str, Client]) -> None:
        if not cells:
            raise ValueError("there is no cell")
        for name in cells:
            if not CELL.fullmatch(name) and [*cells] != [""]:
                raise ValueError(
                    f"a cell's name is 1-16 lower-case letters and digits; not {safe_repr(name)}"
                )
        self._cells = dict(cells)
        self._avoided_until_s: dict[str, float] = {}
        self._has_workers_until_s: dict[str, float] = {}

    def of(self, request_id: str) -> Client:
        """The client of the cell that has this request: `cells.of(id).answer(id)`.  Raises UnknownRequest."""
        if "" in self._cells:
            return self._cells[""]
        _, dot, name = request_id.rpartition(".")
        if not dot or name not in self._cells:
            raise UnknownRequest(
                request_id, f"it ends with no cell's name; there are: {', '.join(self._cells)}"
            )
        return self._cells[name]

    def writer(self, namespace: str) -> Client:
        """The client of the one cell that takes the documents of a namespace, since only one cell knows their order."""
        return self._cells[min(self._cells, key=lambda name: _place(name, namespace))]

    def attempts(self, hashed_text: str) -> Iterator[tuple[str, Client, AbstractContextManager[None]]]:
        """Each cell in the order that this text has: its name, its client, and the context of the attempt.  An attempt whose
        ServiceUnavailable the context has caught is followed by the next cell; the last cell's error is raised."""
        names = self._order_of(hashed_text)
        for name in names:
            yield name, self._cells[name], self._attempt(name, inf if name != names[-1] else -inf)

    def _attempts(self, request: Request) -> Iterator[Attempt[Client]]:
        """Each cell that may get the request.  After an attempt without a result comes the next cell."""
        begun_s, names = time.monotonic(), self._order(request)
        # Without a `timeout_s` each cell has a default of its own.
        limit_s = request.timeout_s if "timeout_s" in request.model_fields_set else inf
        for name in names:
            remaining_s = limit_s - (time.monotonic() - begun_s)
            rest = (
                {"timeout_s": max(remaining_s, SHORTEST_S)} if name != names[0] and remaining_s < inf else {}
            )
            next_cell_until_s = begun_s + limit_s if name != names[-1] else -inf
            needs_workers = name != names[-1] and self._has_workers_until_s.get(name, 0) <= time.monotonic()
            context = self._attempt(name, next_cell_until_s)
            yield Attempt(name, self._cells[name], _named(request, name, **rest), context, needs_workers)

    def _require_workers(self, name: str, *, has_workers: bool) -> None:
        """Raises ServiceUnavailable if the cell has no workers.  The last cell gets a request all the same, since its workers may start."""
        if not has_workers:
            raise ServiceUnavailable(f"the cell {name} has no workers")
        self._has_workers_until_s[name] = time.monotonic() + WORKERS_KNOWN_FOR_S

    @contextmanager
    def _attempt(self, name: str, next_cell_until_s: float) -> Iterator[None]:
        """One attempt at a cell.  A cell that cannot be reached is avoided for a while, and the attempt ends without an error, so that
        the next cell gets the request; after `next_cell_until_s` the error is raised.  One request at a time tries an avoided cell."""
        if name in self._avoided_until_s:
            self._avoided_until_s[name] = time.monotonic() + AVOIDED_FOR_S
        try:
            yield
            self._avoided_until_s.pop(name, None)
        except ServiceUnavailable as error:
            if error.accepted:
                raise  # another cell would search it a second time
            self._avoided_until_s[name] = time.monotonic() + AVOIDED_FOR_S
            if time.monotonic() > next_cell_until_s:
                raise

    def _order(self, request: Request) -> list[str]:
        if len(self._cells) == 1:
            return [*self._cells]
        return self._order_of(request.model_dump_json(include={"namespace", "questions"}))

    def _order_of(self, hashed_text: str) -> list[str]:
        """The names of the cells; avoided cells come last.  Avoiding a cell moves only the requests of that cell."""
        now_s = time.monotonic()
        return sorted(
            self._cells,
            key=lambda name: (self._avoided_until_s.get(name, 0) > now_s, _place(name, hashed_text)),
        )


class Cells(Placement[Chorale]):
    """Sends each request to one of the cells, whose clients are given by name; by default to those of `CHORALE_CELLS`, which is
    `a=redis://…,b=redis://…`.  An id ends with a dot and the name of its cell.

    Equal questions go to the same cell while it can be reached, where they are cached, and searched once.  An id is unique within a
    cell: a request that is sent again may run in another one.  Threads may share this object.
    """

    def __init__(self, cells: Mapping[str, Chorale] | None = None) -> None:
        super().__init__({name: Chorale(url) for name, url in from_environment()} if cells is None else cells)

    def retrieve(self, questions: Questions, **options: Unpack[RequestOptions]) -> Answer:
        """As `Chorale.retrieve`.  Raises ServiceUnavailable if no cell can be reached in time, or if the cell that has accepted the
        request is lost."""
        return self.ask(make_request(questions, **options))

    def ask(self, request: Request, *, on_event: OnEvent | None = None) -> Answer:
        """Like `retrieve`, for a request of `make_request`; calls `on_event` with each of its events."""
        return self._at_the_first(request, partial(Chorale.ask, on_event=on_event))

    def send(self, questions: Questions, **options: Unpack[RequestOptions]) -> str:
        """As `Chorale.send`."""
        return self.submit_request(make_request(questions, **options)).id

    def submit_request(self, request: Request) -> Handle:
        """As `Chorale.submit_request`."""
        return self._at_the_first(request, Chorale.submit_request)

    def close(self) -> None:
        for cell in self._cells.values():
            cell.close()

    def _at_the_first(self, request: Request, do: Callable[[Chorale, Request], T]) -> T:
        """What the first cell that can be reached does with the request."""
        for name, cell, named, attempt, needs_workers in self._attempts(request):
            with attempt:
                if needs_workers:
                    self._require_workers(name, has_workers=cell.has_workers())
                return do(cell, named)
        raise AssertionError("the last cell has answered or raised")


def from_environment(broker_url: str | None = None) -> Iterable[tuple[str, str]]:
    """The names of the cells of `CHORALE_CELLS`, with their addresses.  Raises ValueError, also if there is a broker beside cells."""
    broker_url = broker_url or os.environ.get(BROKER_VARIABLE)
    return cell_addresses(os.environ.get(CELLS_VARIABLE), broker_url).items()


def _named(request: Request, name: str, **rest: float) -> Request:
    if not name:
        return request  # there is no other cell
    try:
        request_id = check_identifier(f"{request.request_id}.{name}")
    except ValueError as error:
        raise InvalidRequest(f"request_id: {error}") from None
    return request.model_copy(update={"request_id": request_id, **rest})


def _place(name: str, hashed_text: str) -> bytes:
    """Rendezvous hashing: the cell with the least hash is the first."""
    return hashlib.sha256(f"{name} {hashed_text}".encode()).digest()
