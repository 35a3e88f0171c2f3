"""A caller in its own process, which is killed at a named place while it asks."""

from __future__ import annotations

import os

from chorale_client.request import Request

from tests.support.pipelines.failpoints import PRELOAD, PROCESS
from tests.support.pipelines.pipeline import FORK_SERVER, PYTHONPATH, RunningPipeline

_BEGIN = f"""
{PRELOAD}
from chorale_client import Chorale, make_request
from chorale_client.request import Request
from tasks.registration import make_app
from tasks.wiring.resources import Resources
from tasks.request.retrieve import submit
from tests.support.pipelines.failpoints import arm

resources, request = Resources.from_environment(), Request.model_validate_json(sys.argv[1])
warm = make_request("warm", cache="bypass")
"""

CALLERS = {
    "chorale_client": """
client = Chorale(resources.redis_url)
client.ask(warm)
arm(resources.redis, sys.argv[2], process="caller")
client.ask(request)
""",
    "itself_a_planner": """
fanout = make_app(resources).fanout
submit(resources, fanout, warm)
arm(resources.redis, sys.argv[2], process="caller")
submit(resources, fanout, request)
""",
}
"""Callers: one with only the client, one with the pipeline, like the command line."""


def ask_and_be_killed(pipeline: RunningPipeline, caller: str, place: str, request: Request) -> int:
    """Asks as this caller, which is killed at `place`; returns how the process ended."""
    environment = {**os.environ, **pipeline.environment, "PYTHONPATH": PYTHONPATH, PROCESS: "caller"}
    arguments = f"import sys\nsys.argv = {['caller', request.model_dump_json(), place]}\n"
    return FORK_SERVER.fork(arguments + _BEGIN + CALLERS[caller], environment).wait(60)
