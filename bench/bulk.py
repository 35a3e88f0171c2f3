"""Measures a bulk job beside one process that answers the same questions, and interactive requests beside a job."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from chorale_client.limits import MAX_QUESTIONS
from chorale_client.request_factory import make_request

from bench import one_process
from bench.installation import questions_about
from bench.timing import ROUNDS, Ask, Timing, alone_and_beside, cpu_measured
from config.redis_client import redis_ms
from ingest.raw_documents import RawDocument
from jobs.job import SEGMENT_LINES, Job, Line, NewJob, Outcome, State
from models.errors import ServiceError
from wiring.resources import Resources

BESIDE = 10_000
"""Lines of the job beside which requests are measured; it is cancelled afterwards."""
LOOK_S = 0.05
IN_PROCESS_THREADS = (1, 2)
"""Threads of the single process.  It is measured with each number, and the faster one counts."""
QUESTIONS_OF_A_DOCUMENT = 2
"""Questions that a document gives on average; the demo's documents have words for more."""
Progress = Callable[[str], object]
JOB_LIMIT_S = 3_600.0


class InProcess(Resources):
    """Resources of the only process that computes.  `threads` answer at once, and embed with all cores together."""

    def __init__(self, beside: Resources, threads: int) -> None:
        super().__init__(beside.settings, beside.pipeline, beside.redis_url)
        self.threads = threads

    @property
    def threads_for_a_model(self) -> int:
        return max(1, self.settings.model_threads // self.threads)


def many_questions(documents: Sequence[RawDocument], count: int) -> list[str]:
    """`count` different questions about the corpus; if the corpus has too few, they come again with a number."""
    texts = questions_about(documents, QUESTIONS_OF_A_DOCUMENT * len(documents))
    return [f"{text} {turn}" if turn else text for turn in range(1 + count // len(texts)) for text in texts][
        :count
    ]


class BulkJobs:
    """Jobs of the measured installation."""

    def __init__(self, resources: Resources, namespace: str) -> None:
        self._resources = resources
        self._namespace = namespace

    def submit(self, texts: Sequence[str]) -> str:
        """A queued job of these questions; returns its id."""
        jobs, now_ms, job_id = self._resources.jobs, redis_ms(self._resources.redis), uuid.uuid4().hex
        jobs.create(NewJob(job_id, self._namespace), now_ms=now_ms)
        starts = range(0, len(texts), SEGMENT_LINES)
        for number, start in enumerate(starts):
            lines = [
                Line(at, str(at), {"questions": [{"text": text}]})
                for at, text in enumerate(texts[start : start + SEGMENT_LINES], start + 1)
            ]
            jobs.add(job_id, {number: lines}, now_ms=now_ms)
        jobs.begin(job_id, segments=len(starts), now_ms=now_ms)
        return job_id

    def wait(self, job_id: str) -> Job:
        """The job when it has ended; raises ServiceError if a line has no complete answer."""
        until_s = time.monotonic() + JOB_LIMIT_S
        while (job := self._resources.jobs.get(job_id)).state != State.ENDED:
            if time.monotonic() > until_s:
                raise ServiceError(f"the job does not end: {job.counts}")
            time.sleep(LOOK_S)
        if job.outcome != Outcome.COMPLETED or job.complete != job.total:
            raise ServiceError(f"the job is {job.outcome}: {job.counts}")
        return job

    def seconds(self, texts: Sequence[str]) -> float:
        """From the first segment that was sent to the job's end."""
        job = self.wait(self.submit(texts))
        assert job.started_at_ms is not None
        assert job.ended_at_ms is not None
        return (job.ended_at_ms - job.started_at_ms) / 1000

    @contextmanager
    def running(self, texts: Sequence[str]) -> Iterator[None]:
        """A job that has its first results when the block begins, and is cancelled with it."""
        job_id, jobs = self.submit(texts), self._resources.jobs
        while not jobs.get(job_id).done:
            time.sleep(LOOK_S)
        yield
        jobs.cancel(job_id)
        while jobs.get(job_id).state != State.ENDED:
            time.sleep(LOOK_S)


def in_process_seconds(resources: InProcess, namespace: str, texts: Sequence[str]) -> float:
    """Seconds to answer the questions by function calls, as many at once as a request may have."""

    def answer(some: Sequence[str]) -> None:
        request = make_request(list(some), namespace=namespace, cache="bypass", timeout_s=60)
        plan = one_process.plan_of(resources, request)
        envelopes = {branch.name: one_process.search(resources, request, branch) for branch in plan.branches}
        one_process.fuse(resources, request, plan, envelopes)

    return _in_threads(answer, texts, resources.threads)


def encoder_seconds(resources: InProcess, texts: Sequence[str]) -> float:
    return _in_threads(resources.embedder.questions.embed_questions, texts, resources.threads)


def _in_threads(do: Callable[[Sequence[str]], object], texts: Sequence[str], count: int) -> float:
    """Seconds to call `do` for all texts, MAX_QUESTIONS at once, in `count` threads."""
    begun_s = time.perf_counter()
    portions = [texts[start : start + MAX_QUESTIONS] for start in range(0, len(texts), MAX_QUESTIONS)]
    with ThreadPoolExecutor(count) as threads:
        for _ in threads.map(do, portions):
            pass
    return time.perf_counter() - begun_s


def compare(
    installation: BulkJobs,
    resources: Resources,
    namespace: str,
    texts: Sequence[str],
    *,
    run_only: Callable[[bool], Mapping[str, int]],
    progress: Progress,
) -> list[dict[str, Any]]:
    """Each variant's questions a second, and the processor time of a question, over all rounds.

    `run_only(True)` lets the workers run, `run_only(False)` holds them still; returns the ids of the running processes.
    """
    alone = [InProcess(resources, threads) for threads in IN_PROCESS_THREADS]
    variants: list[tuple[str, Callable[[Sequence[str]], float], Timing]] = [
        ("job", installation.seconds, Timing()),
        *(
            ("in_process", partial(in_process_seconds, in_process, namespace), Timing())
            for in_process in alone
        ),
        *(("encoder", partial(encoder_seconds, in_process), Timing()) for in_process in alone),
    ]
    for number in range(ROUNDS):
        mine = texts[number::ROUNDS]
        for name, seconds, timing in [*variants[number:], *variants[:number]]:
            progress(f"{name}, {len(mine):,} questions, round {number + 1} of {ROUNDS}")
            with cpu_measured(timing, run_only(name == "job"), lambda: None):
                timing.wall_s += seconds(mine)
    run_only(True)
    fastest: dict[str, Timing] = {}
    for name, _, timing in sorted(variants, key=lambda variant: variant[2].wall_s):
        fastest.setdefault(name, timing)
    return [
        {
            "name": name,
            "questions_per_s": round(len(texts) / timing.wall_s, 1),
            "cpu_ms_per_question": round(timing.cpu_ms.total() / len(texts), 2),
        }
        for name in ("job", "in_process", "encoder")
        for timing in [fastest[name]]
    ]


def interactive(
    installation: BulkJobs, ask: Ask, questions: Sequence[str], texts: Sequence[str], *, progress: Progress
) -> dict[str, Any]:
    """The time of single requests, one after another, alone and while a job of `texts` runs."""
    return alone_and_beside(
        ask,
        questions,
        lambda: installation.running(texts),
        {"p50": 0.5, "p95": 0.95},
        in_flight=1,
        progress=progress,
    )
