"""What the HTTP process of each checkout spends on a search: `python -m docs.evidence.http_process [ROUNDS [SEARCHES [FOLDER...]]]`.

The HTTP processes of the checkouts in these folders, each with its `.venv`, are asked in turns over one Redis.  In place of workers a
thread ends each search at once, with ten hits of 700 characters: so the processes differ in nothing but their code.  Printed are
the processor time of a search, and its ratio to that of the first checkout with a confidence interval of 95 %.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from itertools import count
from math import exp, log
from pathlib import Path
from socket import create_server
from statistics import mean, stdev

from chorale_client.keys import OUTBOX
from chorale_client.wire_names import QUEUE_RETRIEVE
from redis import Redis

from cli.local.servers import own_key
from cli.terminal import print_line
from config.settings import Settings
from tests.support.ledger.single_steps import SingleSteps
from tests.support.pipelines.pipeline import ROOT
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

TEXT = (
    "The tenant of a flat may end the lease at the end of any month, with a notice of three months. " * 8
)[:700]
BRANCHES = ("bm25", "vector", "hyde")
NUMBERS = count()


def a_hit(rank: int) -> dict[str, object]:
    passage_id = f"handbook/part-{rank}.md#3"
    of_branch = {"rank": rank, "score": 0.5, "normalised": 0.9, "weight": 0.3, "contribution": 0.27}
    return {
        "rank": rank,
        "document_id": f"handbook/part-{rank}.md",
        "passage_id": passage_id,
        "score": 1 / rank,
        "title": f"Repairs, part {rank}",
        "text": TEXT,
        "snippet": {"text": TEXT[:300], "highlights": [[10, 16], [40, 45]]},
        "found_by": BRANCHES,
        "metadata": {"author": "A. Writer", "chapter": rank},
        "branches": {name: {**of_branch, "passage_id": passage_id} for name in BRANCHES},
    }


ANSWER = json.dumps(
    {
        "status": "complete",
        "questions": [{"text": "Who pays?", "status": "ok", "hits": [a_hit(rank) for rank in range(1, 11)]}],
        "stages": [{"stage": f"search.{name}", "ms": 2.5, "n_out": 10, "start_ms": 3.1} for name in BRANCHES],
    }
)


def end_searches(client: Redis, has_ended: threading.Event) -> None:
    service = SingleSteps(client)
    while not has_ended.is_set():
        if (taken := client.brpop([QUEUE_RETRIEVE], timeout=1)) is not None:
            request_id = json.loads(b64decode(json.loads(taken[1])["body"]))[1]["request_id"]
            service.finish(request_id, by="fusion", body=ANSWER, is_complete=True)
            client.delete(OUTBOX)


@contextmanager
def serving(folder: Path, environment: dict[str, str]) -> Iterator[tuple[int, HTTPConnection]]:
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(folder / ".venv/bin/python"), "-m", "cli", "serve", "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    connection = HTTPConnection("127.0.0.1", port, timeout=30)

    def answers() -> bool:
        try:
            connection.request("GET", "/healthz")
            return bool(connection.getresponse().read())
        except OSError:
            connection.close()
            return False

    try:
        until(answers, limit_s=60)
        yield process.pid, connection
    finally:
        connection.close()
        process.terminate()
        process.wait()


def cpu_ms(pid: int) -> float:
    """The processor time of all threads, which Linux counts in nanoseconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1_000_000


def spent_ms(pid: int, connection: HTTPConnection, key: str, searches: int) -> float:
    """The processor time of a search."""
    # An idle connection is closed after five seconds.
    connection.close()
    before_ms, headers = cpu_ms(pid), {"Authorization": f"Bearer {key}"}
    headers["Content-Type"] = "application/json"
    for _ in range(searches):
        body = json.dumps({"questions": [f"Who pays for repair {next(NUMBERS)}?"], "namespace": "docs"})
        connection.request("POST", "/v1/searches", body, headers)
        response = connection.getresponse()
        assert (response.status, len(response.read()) > len(TEXT)) == (200, True)
    return (cpu_ms(pid) - before_ms) / searches


def main(rounds: int = 100, searches: int = 30, *, folders: Sequence[str] = ()) -> None:
    checkouts = [Path(folder) for folder in folders] or [ROOT]
    others = {name: value for name, value in os.environ.items() if not name.startswith("CHORALE_")}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer())
        key_file = own_key(Settings(home=home))
        assert key_file is not None
        has_ended = threading.Event()
        ending = threading.Thread(target=end_searches, args=(Redis.from_url(redis.url), has_ended))
        ending.start()
        stack.callback(ending.join)
        stack.callback(has_ended.set)
        environment = {**others, "CHORALE_HOME": str(home), "CHORALE_REDIS_URL": redis.url}
        servers = [stack.enter_context(serving(folder, environment)) for folder in checkouts]
        spent: list[list[float]] = [[] for _ in servers]
        for number in range(-1, rounds):
            for at in range(len(servers))[:: 1 if number % 2 else -1]:
                took_ms = spent_ms(*servers[at], key_file.read_text().strip(), searches)
                if number >= 0:  # the first round warms
                    spent[at].append(took_ms)
        for folder, of_folder in zip(checkouts, spent, strict=True):
            logs = [log(one / first) for one, first in zip(of_folder, spent[0], strict=True)]
            width = 1.96 * stdev(logs) / len(logs) ** 0.5
            ratio = f"{100 * (exp(mean(logs)) - 1):+.1f} % ± {100 * width:.1f}"
            print_line(f"{folder}: {mean(of_folder):.2f} ms of processor time for a search, {ratio}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), folders=sys.argv[3:])
