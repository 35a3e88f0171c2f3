"""What task events and Flower cost: `python -m docs.evidence.task_events [ROUNDS [QUESTIONS [DOCUMENTS]]]`.

Two installations, with `CHORALE_TASK_EVENTS` and Flower and without, answer the same questions in turns; the processes of
the other one stand still.  Prints requests a second, and the processor time of all processes for one request.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from cli.local.measured_pipeline import LastLines
from cli.local.processes import running
from cli.local.supervisor import Supervisor
from config.blas_threads import limit_threads
from config.settings import load_settings
from tasks.indexing.indexing_run import SourceDocuments
from tasks.indexing.namespace_writer import index_corpus
from tasks.registration import make_app
from tasks.sweeping.request_events import TICK_EVERY_S
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.bench.installation import questions_about
from tests.bench.latency import wait_for_audit
from tests.bench.python_docs import SOURCE, python_docs
from tests.bench.timing import Timing, cpu_measured, drive
from tests.bench.variants import ChordPath

DOCUMENTS, IN_FLIGHT, QUESTIONS = 300, 16, 160
FLOWER_PORT = 5599
Installation = tuple[Supervisor, Resources]


@contextmanager
def installation(home: Path, documents: int, *, events: bool) -> Iterator[Installation]:
    os.environ |= {"CHORALE_HOME": str(home), "CHORALE_TASK_EVENTS": str(events).lower()}
    settings, lines = load_settings(), LastLines()
    pipeline = load_pipeline(settings.pipeline_file)
    with lines, running(settings, pipeline, lines, flower_port=FLOWER_PORT if events else None) as started:
        started.supervisor.require_ready()
        resources = Resources(settings, pipeline, started.redis_url)
        corpus = list(islice(python_docs(), documents))
        index_corpus(resources, SourceDocuments(corpus, SOURCE, total=len(corpus)), namespace="bench")
        yield started.supervisor, resources


def settle(resources: Resources) -> None:
    """Waits until the requests are audited, and Flower has their events."""
    wait_for_audit(resources.redis)
    time.sleep(2 * TICK_EVERY_S)


def main(rounds: int, questions: int, documents: int) -> None:
    limit_threads()
    os.environ |= {"CHORALE_WORKER_PROCESSES": "index=0,bulk=0", "CHORALE_LOG_LEVEL": "WARNING"}
    texts = iter(questions_about(list(python_docs()), questions * (rounds + 1)))
    timings: dict[str, list[Timing]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        homes = {name: Path(folder, name) for name in timings}
        both = {
            name: stack.enter_context(installation(home, documents, events=name == "with"))
            for name, home in homes.items()
        }
        options = {"namespace": "bench", "cache": "bypass", "timeout_s": 30.0}
        asks = {name: ChordPath(make_app(one[1]), one[1], options).ask for name, one in both.items()}
        for turn in range(rounds + 1):
            asked = list(islice(texts, questions))
            for name in list(timings) if turn % 2 else list(timings)[::-1]:
                for other, (supervisor, _) in both.items():
                    for process in supervisor.pids():
                        (supervisor.resume if other == name else supervisor.pause)(process)
                supervisor, resources = both[name]
                timing = Timing()
                meter = cpu_measured(timing, supervisor.pids(), partial(settle, resources))
                drive(asks[name], asked, in_flight=IN_FLIGHT, timing=timing, meter=meter)
                if turn:  # the first round warms
                    timings[name].append(timing)
        for supervisor, _ in both.values():
            for process in supervisor.pids():
                supervisor.resume(process)
    rates = {name: [questions / one.wall_s for one in runs] for name, runs in timings.items()}
    cpu = {name: [sum(one.cpu_ms.values()) / questions for one in runs] for name, runs in timings.items()}
    for name, runs in timings.items():
        by_process = {
            process: round(median(one.cpu_ms[process] for one in runs) / questions, 2)
            for process in runs[0].cpu_ms
        }
        sys.stdout.write(
            f"{name}: {median(rates[name]):.0f} requests/s, {median(cpu[name]):.2f} ms CPU: {by_process}\n"
        )
    for what, values in (("requests/s", rates), ("CPU", cpu)):
        ratios = [after / before - 1 for before, after in zip(values["without"], values["with"], strict=True)]
        sys.stdout.write(
            f"{what}: {median(ratios):+.1%} (each round: {', '.join(f'{one:+.1%}' for one in ratios)})\n"
        )


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*given, *(15, QUESTIONS, DOCUMENTS)[len(given) :])
