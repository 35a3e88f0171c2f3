"""`python -m cli.queue_figures`: serves the lengths of the queues over HTTP, for an autoscaler (KEDA).

`GET /chorale.bm25` answers `{"length": 3, "age_s": 0.42}` with any broker; 404 for a queue that the pipeline does not
have, 503 while the broker does not answer.  RabbitMQ shows no message: with it `age_s` is the time since the queue was
last seen empty or shrinking.  The server asks for no login: keep it inside your network.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import uvicorn
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from models.duty import Duty
from models.errors import ServiceError
from monitoring.queues import Queues, QueueState, open_queues
from tasks.wiring.resources import Resources

TICK_EVERY_S = 1.0
OLD_S = 5.0
"""Figures that are older than this are not served."""


class Watch(Duty):
    """Looks at the queues each second in a thread of its own, so that a hung broker delays no request."""

    failing = "the queues cannot be read"
    expected = (Exception,)  # whatever a broker's transport raises

    def __init__(self, open_: Callable[[], Queues]) -> None:
        self._open = open_
        self._queues: Queues | None = None
        self._seen: tuple[float, Mapping[str, QueueState]] = -OLD_S, {}

    def figures(self) -> Mapping[str, QueueState] | None:
        """None while the broker does not answer."""
        at_s, states = self._seen
        return states if time.monotonic() - at_s <= OLD_S else None

    def tick(self) -> float:
        self._queues = self._queues or self._open()
        self._seen = time.monotonic(), self._queues.states()
        return TICK_EVERY_S

    def reset(self) -> None:
        queues, self._queues, self._seen = self._queues, None, (-OLD_S, {})
        if queues is not None:
            with suppress(Exception):
                queues.close()


def figures_app(figures: Callable[[], Mapping[str, QueueState] | None]) -> Starlette:
    async def queue_state(request: Request) -> JSONResponse:
        if (states := figures()) is None:
            return JSONResponse({"error": "the broker does not answer"}, 503)
        if (state := states.get(request.path_params["queue"])) is None:
            return JSONResponse({"error": "no such queue"}, 404)
        # A queue that is not declared yet, or of unknown length, needs no further worker.
        return JSONResponse({"length": state.length or 0, "age_s": round(state.age_s or 0.0, 3)})

    return Starlette(routes=[Route("/{queue}", queue_state)])


def main() -> int | str:
    arguments = argparse.ArgumentParser(prog="python -m cli.queue_figures", description=__doc__)
    arguments.add_argument("--address", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=9100)
    options = arguments.parse_args()
    # uvicorn stops, and raises the signal again: the process ends with 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        resources = Resources.from_environment()
    except (ServiceError, RedisError) as error:
        return str(error)
    broker_url = resources.settings.broker_url
    watch = Watch(partial(open_queues, resources.redis, resources.pipeline.queues, broker_url=broker_url))
    threading.Thread(target=watch.run, args=(threading.Event(),), name="queues", daemon=True).start()
    app = figures_app(watch.figures)
    uvicorn.run(app, host=options.address, port=options.port, log_level="warning", access_log=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
