"""The process in which statements over graphs run: it is ended where a statement takes too much time or memory.

kglite looks neither at the clock nor at its memory within an expression, such as a `reduce` that doubles a text.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from models.errors import InvalidAnswer, NotConfigured, StageFailure, UnknownNamespace
from search.cypher_rows import MAX_ROWS
from search.deadline import Deadline

MEMORY_MB = 256
"""What a statement may need beside the graphs."""
_POLL_EVERY_S = 0.01
_LONGEST_REPLY_BYTES = 16_000_000
_PROGRAM = Path(__file__).with_name("statement_runner.py")


class StatementProcess:
    """Thread-safe; runs one statement at a time.

    A statement may end the process; the process then starts again with all graphs.
    """

    def __init__(self, subject: str) -> None:
        """`subject` names the graph in errors."""
        self._subject = subject
        self._graphs: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._process: psutil.Popen
        self._connection: Connection
        self._most_bytes = 0
        """How large the process may become."""
        self._is_closed = False
        self._end: weakref.finalize[..., StatementProcess] | None = None
        """Ends the process.  Python calls it too, before it collects this object, and at the end of the worker."""

    def put(self, namespace: str, graph: bytes | None) -> None:
        """Replace a namespace's graph by one that `kglite.KnowledgeGraph.to_bytes` wrote, or remove it.

        Raises StageFailure where the process cannot load the graph; the former graphs are then kept.
        """
        with self._lock:
            former = self._graphs.copy()
            if graph is None:
                self._graphs.pop(namespace, None)
            else:
                self._graphs[namespace] = graph
            if self._is_running:
                with suppress(StageFailure), self._ended_by_errors():
                    self._hand_over(namespace)
            if graph is not None and not self._is_running:
                try:
                    self._start()
                except StageFailure:
                    self._graphs = former
                    raise

    def rows(
        self,
        namespace: str,
        statement: str,
        values: Mapping[str, Any],
        deadline: Deadline,
        *,
        wanted: Sequence[str],
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """The wanted columns of at most MAX_ROWS rows, and the names of all columns.

        Raises StoreTimeout, UnknownNamespace, NotConfigured for a wrong statement, InvalidAnswer, and StageFailure for
        too much memory.
        """
        message = {"namespace": namespace, "statement": statement, "values": values, "wanted": wanted}
        if not self._lock.acquire(timeout=deadline.check()):
            raise deadline.over()
        try:
            if namespace not in self._graphs:
                raise UnknownNamespace(namespace, self._subject)
            if not self._is_running:
                self._start()
            limit_s = deadline.check()
            try:
                with self._ended_by_errors(", or the rows were too long"):
                    self._send({**message, "most_rows": MAX_ROWS, "limit_s": limit_s})
                    reply = self._reply(deadline)
            except BaseException:
                threading.Thread(target=self._start_again, name="graph", daemon=True).start()
                raise
        finally:
            self._lock.release()
        match reply.get("error"):
            case "time":
                raise deadline.over()
            case "statement":
                raise NotConfigured(reply["detail"])
            case "answer":
                raise InvalidAnswer(reply["detail"])
        return reply["rows"], reply["columns"]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._stop()

    @property
    def _is_running(self) -> bool:
        return self._end is not None and self._end.alive

    def _reply(self, deadline: Deadline) -> dict[str, Any]:
        while not self._connection.poll(_POLL_EVERY_S):
            if self._process.memory_info().rss > self._most_bytes:
                raise StageFailure(f"{self._subject}: the statement needs more than {MEMORY_MB} MB of memory")
            deadline.check()
        reply: dict[str, Any] = json.loads(self._connection.recv_bytes(_LONGEST_REPLY_BYTES))
        return reply

    def _start_again(self) -> None:
        with self._lock:
            if not self._is_running:
                with suppress(StageFailure):  # The next statement tries again.
                    self._start()

    def _start(self) -> None:
        if self._is_closed:
            raise StageFailure(f"{self._subject} is closed")
        with self._ended_by_errors():
            self._connection, theirs = Pipe()
            with theirs:
                self._process = psutil.Popen(
                    [sys.executable, "-P", str(_PROGRAM), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
            self._end = weakref.finalize(self, _end, self._connection, self._process)
            for namespace in self._graphs:
                self._hand_over(namespace)

    def _hand_over(self, namespace: str) -> None:
        graph = self._graphs.get(namespace)
        self._send({"namespace": namespace, "has_graph": graph is not None})
        if graph is not None:
            self._connection.send_bytes(graph)
        self._connection.recv_bytes()
        self._most_bytes = self._process.memory_info().rss + MEMORY_MB * 1_000_000

    @contextmanager
    def _ended_by_errors(self, or_else: str = "") -> Iterator[None]:
        """An error within ends the process, which may be in the middle of a message."""
        try:
            yield
        except BaseException as error:
            self._stop()
            if isinstance(error, EOFError | OSError | psutil.Error):
                why = f"ended, perhaps for lack of memory{or_else}"
                raise StageFailure(f"{self._subject}: the process of its statements {why}") from error
            raise

    def _send(self, message: Mapping[str, Any]) -> None:
        self._connection.send_bytes(json.dumps(message).encode())

    def _stop(self) -> None:
        if self._end is not None:
            self._end()


def _end(connection: Connection, process: psutil.Popen) -> None:
    connection.close()
    process.kill()
    process.wait()
