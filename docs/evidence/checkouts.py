"""What a search over HTTP takes in each checkout: `python -m docs.evidence.checkouts CORPUS [SEARCHES [FOLDER...]]`.

`chorale up --http` of each FOLDER, with its own `.venv`, indexes the first 200 documents of CORPUS (JSON lines of BEIR), and all are asked in
turns: SEARCHES one after another, and then sixteen at once.  Printed are the medians, and those of the last FOLDER beside each of the
others with an interval of 95 % by resampling the turns.  Answers are neither cached nor reranked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from socket import create_server
from statistics import median

from cli.output import print_line
from tests.support.pipelines.pipeline import ROOT
from tests.support.waiting import until

DOCUMENTS, WARMING, AT_ONCE, RESAMPLED = 200, 20, 16, 2_000
Turn = Sequence[float]
"""The milliseconds of each checkout."""


@dataclass(frozen=True, slots=True)
class Checkout:
    folder: Path
    port: int
    key: str

    def search_ms(self, question: str) -> float:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = json.dumps({"questions": [question], "cache": "bypass", "rerank": "off"})
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        begun_s = time.perf_counter()
        connection.request("POST", "/v1/searches", body, headers)
        answer = json.loads(connection.getresponse().read())
        took_ms = 1_000 * (time.perf_counter() - begun_s)
        connection.close()
        assert answer["status"] == "complete", answer
        return took_ms


@contextmanager
def serving(folder: Path, documents: str) -> Iterator[Checkout]:
    with tempfile.TemporaryDirectory(prefix="chorale-checkout-") as home:
        with create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (Path(home) / "corpus.jsonl").write_text(documents, encoding="utf-8")
        others = {name: value for name, value in os.environ.items() if not name.startswith("CHORALE_")}
        command = [str(folder / ".venv/bin/python"), "-m", "cli"]
        run = partial(
            subprocess.Popen, cwd=folder, env={**others, "CHORALE_HOME": home}, stdout=subprocess.DEVNULL
        )
        up = run([*command, "up", "--http", "--http-bind", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL)
        try:
            until(partial(_is_ready, port), limit_s=120)
            assert run([*command, "index", f"{home}/corpus.jsonl"]).wait() == 0
            yield Checkout(folder, port, (Path(home) / "http_key").read_text().strip())
        finally:
            up.terminate()
            up.wait()


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def in_turns(
    checkouts: Sequence[Checkout], turns: int, took_ms: Callable[[Checkout], float], random: Random
) -> list[Turn]:
    measured: list[Turn] = []
    for _ in range(turns):
        took = {at: took_ms(checkouts[at]) for at in random.sample(range(len(checkouts)), len(checkouts))}
        measured.append([took[at] for at in range(len(checkouts))])
    return measured


def show(label: str, checkouts: Sequence[Checkout], turns: Sequence[Turn], random: Random) -> None:
    medians = [median(times_ms) for times_ms in zip(*turns, strict=True)]
    for at, checkout in enumerate(checkouts):
        ratios = []
        for _ in range(RESAMPLED):
            sample = random.choices(turns, k=len(turns))
            ratios.append(median(turn[-1] for turn in sample) / median(turn[at] for turn in sample))
        low, high = (100 * (sorted(ratios)[int(RESAMPLED * share)] - 1) for share in (0.025, 0.975))
        beside = (
            f"the last beside it {100 * (medians[-1] / medians[at] - 1):+.1f} % [{low:+.1f}, {high:+.1f}]"
        )
        print_line(
            f"{label}, {checkout.folder}: p50 {medians[at]:.1f} ms; {beside}; load {os.getloadavg()[0]:.0f}"
        )


def main(corpus: str, searches: int = 200, *, folders: Sequence[str] = ()) -> None:
    rows = [json.loads(line) for line in Path(corpus).read_text(encoding="utf-8").splitlines()[:DOCUMENTS]]
    documents = "".join(
        json.dumps({"id": row["_id"], "title": row["title"], "text": row["text"]}) + "\n" for row in rows
    )
    words, random = sorted({word for row in rows for word in row["title"].split()}), Random(1)

    def question() -> str:
        return " ".join(random.choices(words, k=6))

    with ExitStack() as stack, ThreadPoolExecutor(AT_ONCE) as callers:
        checkouts = [
            stack.enter_context(serving(Path(folder), documents)) for folder in folders or [str(ROOT)]
        ]

        def one_ms(checkout: Checkout) -> float:
            return checkout.search_ms(question())

        def many_ms(checkout: Checkout) -> float:
            return median(callers.map(checkout.search_ms, [question() for _ in range(10 * AT_ONCE)]))

        in_turns(checkouts, WARMING, one_ms, random)
        show("1 in flight", checkouts, in_turns(checkouts, searches, one_ms, random), random)
        turns = max(2, searches // 20)
        show(f"{AT_ONCE} in flight", checkouts, in_turns(checkouts, turns, many_ms, random), random)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]), folders=sys.argv[3:])
