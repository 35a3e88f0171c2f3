"""`python -m cli.queue_figures`: how much waits on each queue, over HTTP, for what starts and stops workers (KEDA).

`GET /chorale.bm25` answers `{"length": 3, "age_s": 0.42}`, whatever the broker; 404 for a queue that the pipeline does
not have, 503 while the broker does not answer.  It shows nothing else, and asks for no login: keep it inside.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from redis.exceptions import RedisError

from models.errors import ServiceError
from tasks.queues import Queues, QueueState, open_queues
from tasks.resources import Resources

Look = Callable[[], Mapping[str, QueueState]]


def figures_server(look: Look, address: tuple[str, int]) -> ThreadingHTTPServer:
    """Not started; its `server_address` has the port that was free for port 0."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                state = look().get(self.path.strip("/"))
            except Exception as error:  # whatever a broker's transport raises
                self._say(503, {"error": f"the broker does not answer: {type(error).__name__}"})
            else:
                if state is None:
                    self._say(404, {"error": "no such queue"})
                else:
                    # What nobody declared yet, or nobody can tell, needs no further worker.
                    self._say(200, {"length": state.length or 0, "age_s": round(state.age_s or 0.0, 3)})

        def _say(self, status: int, what: Mapping[str, Any]) -> None:
            body = json.dumps(what).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: it is asked every few seconds."""

    return ThreadingHTTPServer(address, Handler)


class Watch:
    """Asks the broker; opens it anew after it was away.  Thread-safe."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._lock = threading.Lock()
        self._queues: Queues | None = None

    def __call__(self) -> Mapping[str, QueueState]:
        resources = self._resources
        with self._lock:
            try:
                if self._queues is None:
                    self._queues = open_queues(
                        resources.redis, resources.pipeline.queues, broker_url=resources.settings.broker_url
                    )
                return self._queues.states()
            except Exception:
                self._queues = None
                raise


def main() -> int | str:
    arguments = argparse.ArgumentParser(prog="python -m cli.queue_figures", description=__doc__)
    arguments.add_argument("--address", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=9100)
    given = arguments.parse_args()
    try:
        look = Watch(Resources.from_environment())
    except (ServiceError, RedisError) as error:
        return str(error)
    with figures_server(look, (given.address, given.port)) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
