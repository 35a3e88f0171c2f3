"""Measures a bulk job beside one process that answers the same questions, and interactive requests beside a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from chorale_client import Chorale
from chorale_client.errors import WrongJobState
from chorale_client.limits import MAX_QUESTIONS
from chorale_client.request_factory import make_request

from ingest.raw_documents import RawDocument
from models.errors import ServiceError
from tasks.registration import make_app
from tasks.wiring.resources import Resources
from tests.bench.installation import NAMESPACE, Measured, questions_about
from tests.bench.plain_chord import answer_in_process
from tests.bench.timing import ROUNDS, WARMING, Ask, Variant, ask_all, compare
from tests.bench.variants import BESIDE_WORKERS, TIMEOUT_S, ChordPath

BESIDE = 30
"""Lines of the job beside which requests are measured, for each request; it is cancelled afterwards."""
QUESTIONS_OF_A_DOCUMENT = 2
"""Questions that a document gives on average; the demo's documents have words for more."""
JOB_LIMIT_S = 3_600.0


class OnlyProcess(Resources):
    """Resources of the only process that computes."""

    def __init__(self, beside: Resources) -> None:
        super().__init__(beside.settings, beside.pipeline, beside.redis_url)

    @property
    def threads_for_a_model(self) -> int:
        return self.settings.model_threads


def many_questions(documents: Sequence[RawDocument], count: int) -> list[str]:
    """`count` different questions about the corpus; if the corpus has too few, they come again with a number."""
    texts = questions_about(documents, QUESTIONS_OF_A_DOCUMENT * len(documents))
    turns = range(1 + count // len(texts))
    return [f"{text} {turn}" if turn else text for turn in turns for text in texts][:count]


def measure(measured: Measured, questions: int, requests: int) -> dict[str, Any]:
    """Questions a second of a job and of one process; and requests, one at a time, alone and beside a job."""
    resources, client = measured.resources, Chorale(measured.resources.redis_url)
    texts = many_questions(measured.corpus, questions + requests)
    workers = (*measured.layout, *BESIDE_WORKERS)
    measured.progress("loading the models")
    ask = ChordPath(
        make_app(resources), resources, {"namespace": NAMESPACE, "cache": "bypass", "timeout_s": TIMEOUT_S}
    ).ask
    ask_all(ask, [WARMING])
    # `compare` asks round by round: each round has one item, a portion of all questions.
    portions = ["\n".join(texts[:questions][number::ROUNDS]) for number in range(ROUNDS)]
    rivals = [
        Variant("job", _job_of(client), workers),
        Variant("in_process", _in_process(OnlyProcess(resources))),
    ]
    runs = compare(rivals, {1: portions}, run_only=measured.installation.run_only, progress=measured.progress)
    beside = [f"{text} beside" for text in many_questions(measured.corpus, BESIDE * requests)]
    interactive = [
        Variant("alone", ask, workers),
        Variant("beside", ask, workers, beside=lambda: _running(client, beside)),
    ]
    others = compare(
        interactive,
        {1: texts[questions:]},
        run_only=measured.installation.run_only,
        progress=measured.progress,
    )
    return {"runs": [_by_question(run, questions) for run in runs], "interactive": others}


def _by_question(run: Mapping[str, Any], questions: int) -> dict[str, Any]:
    a_portion = questions / ROUNDS
    return {
        "name": run["name"],
        "questions_per_s": round(run["requests_per_s"] * a_portion, 1),
        "cpu_ms_per_question": round(sum(run["cpu_ms"].values()) / a_portion, 2),
    }


def _job_of(client: Chorale) -> Ask:
    def ask(texts: str) -> None:
        """Raises ServiceError if a line has no complete answer."""
        job = client.jobs.submit(texts.splitlines(), namespace=NAMESPACE).wait(JOB_LIMIT_S)
        if job.counts["complete"] != job.total:
            raise ServiceError(f"the job is {job.outcome}: {job.counts}")

    return ask


def _in_process(resources: Resources) -> Ask:
    def ask(texts: str) -> None:
        questions = texts.splitlines()
        for start in range(0, len(questions), MAX_QUESTIONS):
            some = questions[start : start + MAX_QUESTIONS]
            request = make_request(some, namespace=NAMESPACE, cache="bypass", timeout_s=60)
            answer_in_process(resources, request)

    return ask


@contextmanager
def _running(client: Chorale, texts: Sequence[str]) -> Iterator[None]:
    """A job that has its first results when the block begins, and is cancelled with it."""
    job = client.jobs.submit(texts, namespace=NAMESPACE)
    next(job.results(wait=True))
    yield
    with suppress(WrongJobState):  # it has ended
        job.cancel()
    job.wait(JOB_LIMIT_S)
