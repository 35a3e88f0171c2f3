"""`python -m tests.soak.jobs --lines 100000 --seed 1`: a job whose feeder, worker and Redis are killed at random moments.

Ends with 1 unless every line has exactly one result, and the counts are those of the results.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from records.jobs.job import Outcome
from tests.support.pipelines.bulk import BULK, lines, results, reviving, submit, wait_done, wait_ended
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import RedisServer

WORKERS = ("bulk.1", "bulk.2")
SLOWEST_LINE_S = 0.1
"""A job that needs longer than this for each line is stuck."""


def killed_job(count: int, seed: int) -> dict[str, object]:
    """Runs the job; returns what happened, with `complaint` empty if it is whole."""
    chance, limit_s = random.Random(seed), 60 + count * SLOWEST_LINE_S
    with RedisServer(appendonly=True) as server, RunningPipeline(server, queues=[], sweeper=True) as pipeline:
        pipeline.index()
        for worker in WORKERS:
            pipeline.start(worker, queue=BULK)
        pipeline.wait_ready()

        def restart_redis() -> None:
            server.kill()
            server.start()

        strikes: dict[str, Callable[[], object]] = {
            "feeder": lambda: pipeline.processes["sweeper"].kill(),
            "worker": lambda: pipeline.processes[chance.choice(WORKERS)].kill(),
            "redis": restart_redis,
        }
        struck = dict(
            zip(chance.sample(list(strikes), 3), sorted(chance.sample(range(count), 3)), strict=True)
        )
        job_id = submit(pipeline, lines(count))
        begun_s = time.monotonic()
        with reviving(pipeline):
            for name, done in struck.items():
                wait_done(pipeline, job_id, done, limit_s=limit_s)
                strikes[name]()
            job = wait_ended(pipeline, job_id, limit_s=limit_s)
        seconds = time.monotonic() - begun_s
        try:
            statuses = Counter(one["status"] for one in results(pipeline, job_id).values())
            complaint = "" if job.outcome == Outcome.COMPLETED and len(statuses) == 1 else f"{job.outcome}"
        except AssertionError as error:
            statuses, complaint = Counter(), str(error)
        return {
            "lines": count,
            "killed_at_line": struck,
            "statuses": dict(statuses),
            "seconds": round(seconds, 1),
            "lines_per_s": round(count / seconds, 1),
            "complaint": complaint,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.soak.jobs", description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    outcome = killed_job(options.lines, options.seed)
    print(json.dumps(outcome), flush=True)
    return 1 if outcome["complaint"] else 0


if __name__ == "__main__":
    sys.exit(main())
