"""What log, metrics, traces and Flower cost: `python -m docs.evidence.observing [ROUNDS [QUESTIONS [DOCUMENTS]]]`.

Installations with none of them, with the log and the metrics, and with traces or with task events and Flower too answer the same
questions in turns; the processes of the others stand still.  Prints requests a second, and the processor time of all processes for
one request.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from cli.local.servers import flower_child
from config.blas_threads import limit_threads
from tasks.sweeping.request_events import TICK_EVERY_S
from tests.bench.installation import questions_about
from tests.bench.latency import wait_for_audit
from tests.bench.python_docs import python_docs
from tests.bench.timing import Timing, cpu_measured, drive
from tests.bench.variants import ChordPath
from tests.support.pipelines.pipeline import ROOT, RunningPipeline, logging_to
from tests.support.servers.collector import collector
from tests.support.servers.redis_server import RedisServer

DOCUMENTS, IN_FLIGHT, QUESTIONS = 300, 16, 200
REPLICAS = {"one": "bm25,vector,hyde,fusion", "other": "bm25,vector,hyde,fusion"}
NOTHING = "from tasks.sweeping import ended_listeners\nended_listeners.listeners = lambda resources: []\n"
INFO = {"CHORALE_LOG_LEVEL": "INFO", "CHORALE_LOG_FORMAT": "json"}
FLOWER_PORT = 5599
NONE, LOGGED, TRACED, FLOWER = "none", "log, metrics", "log, metrics, traces", "log, metrics, Flower"


@contextmanager
def installation(folder: Path, name: str, endpoint: str, documents: int) -> Iterator[RunningPipeline]:
    preload = logging_to(folder / f"{name}.log")
    if name == NONE:
        preload += NOTHING
    if name == TRACED:
        preload += f"import os\nos.environ['OTEL_EXPORTER_OTLP_ENDPOINT'] = {endpoint!r}\n"
    environment = ({} if name == NONE else INFO) | ({"CHORALE_TASK_EVENTS": "true"} if name == FLOWER else {})
    with (
        RedisServer() as server,
        RunningPipeline(server, queues=[], environment=environment, preload=preload) as pipeline,
    ):
        for replica, queues in REPLICAS.items():
            pipeline.start(replica, queue=",".join(f"chorale.{queue}" for queue in queues.split(",")))
        pipeline.start("sweeper")
        pipeline.wait_ready()
        if name == FLOWER:
            child = flower_child(pipeline.home, FLOWER_PORT, pipeline.environment)
            pipeline.processes["flower"] = subprocess.Popen(child.argv, env=os.environ | child.env, cwd=ROOT)
        texts = {
            str(place): (one.title or "", one.text[:1_000])
            for place, one in enumerate(islice(python_docs(), documents))
        }
        pipeline.index(texts, namespace="bench")
        yield pipeline


def settle(pipeline: RunningPipeline) -> None:
    """Waits until the requests are audited, and Flower has their events."""
    wait_for_audit(pipeline.redis)
    time.sleep(2 * TICK_EVERY_S)


def main(rounds: int, questions: int, documents: int) -> None:
    limit_threads()
    texts = iter(questions_about(list(python_docs()), questions * (rounds + 1)))
    timings: dict[str, list[Timing]] = {name: [] for name in (NONE, LOGGED, TRACED, FLOWER)}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        endpoint = stack.enter_context(collector()).url
        all_ = {
            name: stack.enter_context(installation(Path(folder), name, endpoint, documents))
            for name in timings
        }
        options = {"namespace": "bench", "cache": "bypass", "timeout_s": 30.0}
        asks = {name: ChordPath(one.app, one.resources, options).ask for name, one in all_.items()}
        for turn in range(rounds + 1):
            of_turn = list(islice(texts, questions))
            names = list(timings)
            for name in names[turn % 4 :] + names[: turn % 4]:
                for other, one in all_.items():
                    for process in one.processes:
                        (one.resume if other == name else one.pause)(process)
                measured = all_[name]
                timing = Timing()
                pids = {process: one.pid for process, one in measured.processes.items()}
                meter = cpu_measured(timing, pids, partial(settle, measured))
                drive(asks[name], of_turn, in_flight=IN_FLIGHT, timing=timing, meter=meter)
                if turn:  # the first round warms
                    timings[name].append(timing)
    per_s = {name: [questions / one.wall_s for one in runs] for name, runs in timings.items()}
    cpu = {name: [sum(one.cpu_ms.values()) / questions for one in runs] for name, runs in timings.items()}
    for name, runs in timings.items():
        drainer = median(one.cpu_ms["sweeper"] / questions for one in runs)
        sys.stdout.write(
            f"{name}: {median(per_s[name]):.0f} requests/s ({_change(per_s, name):+.1%}), "
            f"{median(cpu[name]):.2f} ms CPU ({_change(cpu, name):+.1%}), of which sweeper and audit {drainer:.2f}\n"
        )


def _change(values: dict[str, list[float]], name: str) -> float:
    """The median of the differences in a round from the installation with none of them."""
    return median(one / before - 1 for one, before in zip(values[name], values[NONE], strict=True))


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*given, *(12, QUESTIONS, DOCUMENTS)[len(given) :])
