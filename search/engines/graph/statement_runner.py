"""The program of the process that runs Cypher statements over graphs which are handed to it (`statement_process`).

It is run as a file, so it imports kglite and the standard library alone.
"""

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import kglite

_POLL_EVERY_S = 0.1

_graphs: dict[str, kglite.KnowledgeGraph] = {}


def main(caller: Connection) -> None:
    # The supervisor sends these to all processes of a worker, and the worker first ends what it has begun.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_after, args=(os.getppid(),), daemon=True).start()
    kglite.set_query_warning_policy("silent")
    with suppress(EOFError):
        while True:
            message = json.loads(caller.recv_bytes())
            if "statement" in message:
                reply = _run(**message)
            else:
                _graphs.pop(message["namespace"], None)
                if message["has_graph"]:
                    graph = _graphs[message["namespace"]] = kglite.from_bytes(caller.recv_bytes())
                    graph.read_only(True)
                reply = {}
            caller.send_bytes(json.dumps(reply, default=lambda _: None).encode())


def _end_after(worker: int) -> None:
    """Ends this process, and so its statement, when the worker is killed.

    PR_SET_PDEATHSIG would act at the end of the *thread* that started this process.
    """
    while os.getppid() == worker:
        time.sleep(_POLL_EVERY_S)
    os._exit(1)


def _run(
    namespace: str, statement: str, values: dict[str, Any], limit_s: float, most_rows: int, wanted: list[str]
) -> dict[str, Any]:
    """All columns, and of each row the wanted ones; or the kind of the error, and its first line."""
    try:
        # kglite compares the clock with this limit now and then.
        view: Any = _graphs[namespace].cypher(
            statement, params=values, timeout_ms=max(1, int(limit_s * 900)), row_limit=most_rows
        )
        rows = [{name: row.get(name) for name in wanted} for row in view.to_dicts()]
        return {"columns": view.columns, "rows": rows}
    except kglite.CypherTimeoutError:
        return {"error": "time"}
    except (kglite.CypherSyntaxError, kglite.ReadOnlyError) as error:
        return {"error": "statement", "detail": _first_line(error)}
    except Exception as error:
        return {"error": "answer", "detail": _first_line(error)}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as connection:
        main(connection)
