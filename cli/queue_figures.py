"""`python -m cli.queue_figures`: serves the lengths of the queues over HTTP, for an autoscaler (KEDA).

`GET /chorale.bm25` answers `{"length": 3, "age_s": 0.42}` with any broker; 404 for a queue that the pipeline does not
have, 503 while the broker does not answer.  RabbitMQ shows no message: with it `age_s` is the time since the queue was
last seen empty or shrinking.  The server asks for no login: keep it inside your network.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from redis.exceptions import RedisError

from models.errors import ServiceError
from monitoring.queues import Queues, QueueState, open_queues
from wiring.resources import Resources

Look = Callable[[], Mapping[str, QueueState]]

LOOK_EVERY_S = 1.0
OLD_S = 5.0
"""Figures that are older than this are not served."""


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
                    # A queue that is not declared yet, or of unknown length, needs no further worker.
                    self._say(200, {"length": state.length or 0, "age_s": round(state.age_s or 0.0, 3)})

        def _say(self, status: int, what: Mapping[str, Any]) -> None:
            body = json.dumps(what).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: a request comes every few seconds."""

    return ThreadingHTTPServer(address, Handler)


class Watch:
    """Looks at the queues each second in a thread of its own, so that a hung broker delays no request.

    After an error it opens the connection again.
    """

    def __init__(self, open_: Callable[[], Queues]) -> None:
        self._open = open_
        self._seen: tuple[float, Mapping[str, QueueState] | Exception] = 0.0, ConnectionError()

    def __call__(self) -> Mapping[str, QueueState]:
        at_s, seen = self._seen
        if isinstance(seen, Exception):
            raise seen.with_traceback(None)
        if time.monotonic() - at_s > OLD_S:
            raise TimeoutError
        return seen

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        queues: Queues | None = None
        while True:
            try:
                queues = queues or self._open()
                self._seen = time.monotonic(), queues.states()
            except Exception as error:  # whatever a broker's transport raises
                self._seen = time.monotonic(), error
                with suppress(Exception):
                    if queues:
                        queues.close()
                queues = None
            if stop.wait(LOOK_EVERY_S):
                return


def main() -> int | str:
    arguments = argparse.ArgumentParser(prog="python -m cli.queue_figures", description=__doc__)
    arguments.add_argument("--address", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=9100)
    options = arguments.parse_args()
    # The first process of a container has no default handler for SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        resources = Resources.from_environment()
    except (ServiceError, RedisError) as error:
        return str(error)
    broker_url = resources.settings.broker_url
    watch = Watch(partial(open_queues, resources.redis, resources.pipeline.queues, broker_url=broker_url))
    threading.Thread(target=watch.run, args=(threading.Event(),), name="queues", daemon=True).start()
    with figures_server(watch, (options.address, options.port)) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
