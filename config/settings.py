"""Every knob of one installation: `CHORALE_<NAME>` in the environment, read once at the edge.

What is ranked and where it is searched is the pipeline's declaration (`config.pipeline`), not a setting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from chorale_client.protocol_constants import PROTOCOL
from chorale_client.words import QUEUE_BRANCH
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from config.addresses import check_broker, check_database, check_redis
from models.errors import WrongDeclaration

PREFIX = "CHORALE_"
_NOT_SETTINGS = ("CHORALE_TEST_", "CHORALE_SERVICES")
"""Variables of the test-suite's servers, which are no settings."""

_SECRET = frozenset({"redis_url", "broker_url", "audit_url", "documents_url"})
"""May hold a password: never quoted in an error."""


def _default_home() -> Path:
    """`$XDG_DATA_HOME/chorale`, else `~/.local/share/chorale`; a relative XDG path does not count (XDG 0.8)."""
    data = Path(os.environ.get("XDG_DATA_HOME") or "")
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "chorale"


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Settings(BaseModel):
    """One installation's settings: the values given by name, then those of the environment, then the defaults.

    An environment variable that is set but empty counts as not set.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True
    )

    def __init__(self, **given: Any) -> None:
        variables = {name.upper(): value for name, value in os.environ.items() if value}
        names = {name: f"{PREFIX}{name.upper()}" for name in type(self).model_fields}
        found = {name: variables[variable] for name, variable in names.items() if variable in variables}
        super().__init__(**{**found, **given})

    # Where things are
    home: Path = Field(default_factory=_default_home)
    """Folder of everything this installation keeps: corpus, audit trail, its own Redis. Made when missing."""
    redis_url: str | None = None
    """Redis for ledger, results and cache (`redis://`, `rediss://`, `unix://`). Not set: the server that
    `chorale up` started in `home`, found through `home/redis.json`. May hold a password."""
    broker_url: str | None = None
    """Celery's broker, where it is not that same Redis (`amqp://…` for RabbitMQ). May hold a password."""
    audit_url: str | None = None
    """SQLAlchemy address of the audit tables (`sqlite:///…`, `postgresql+psycopg://…`). Not set: SQLite in
    `home/audit.db`. May hold a password."""
    documents_url: str | None = None
    """SQLAlchemy address of the table of documents, which an installation has whose documents go into servers or into
    several stores. Not set: the database of `audit_url` if that is PostgreSQL, else SQLite in `home/documents.db`. May
    hold a password."""
    pipeline_file: Path | None = None
    """TOML file that declares stores, branches and configurations. Not set: the embedded pipeline that is
    shipped as `config/pipeline.toml`."""

    # Models and documents
    embedder: str = Field("sentence-transformers/all-MiniLM-L6-v2", min_length=1)
    """The model that turns texts into vectors: a name on the Hugging Face hub, or a folder. A namespace stays
    with the model it was built with; another one is refused until the namespace is rebuilt."""
    embedder_backend: str = Field("onnx", min_length=1)
    """What runs the model: `onnx` (the BERT family, and models that bring an ONNX file; no PyTorch) or
    `sentence_transformers` (any model; needs `make torch`)."""
    embedder_document_precision: Literal["fp32", "int8"] = "fp32"
    """Numbers that documents are embedded with. `int8`, which `onnx` has for the BERT family, is about twice as
    fast, and a little different: a namespace stays with the precision it was built with."""
    embedder_question_precision: Literal["fp32", "int8"] = "fp32"
    """Numbers that questions are embedded with; it need not be that of the documents. Two precisions are two
    models in the memory of a worker that needs both."""
    embedder_device: str | None = None
    """Device of the `sentence_transformers` backend: `cpu`, `cuda`, `cuda:1`. Not set: CUDA where there is one."""
    model_threads: int = Field(default_factory=_cores, ge=1, le=1_024)
    """Threads of all models of this machine together, never more than its cores: beyond them they
    only wait for one another."""
    passage_pieces: int | None = Field(None, ge=16, le=32_768)
    """Longest passage in the embedder's own word pieces, heading and title included. Not set: what the model
    reads, so that nothing is cut off unseen."""
    language: str = Field("en", pattern=r"^([a-z]{2}|none)$")
    """Language of the lexical analyser for new namespaces, as ISO 639-1 (`en`, `it`, …), or `none` for no
    stemming and no stop words."""
    near_duplicate_threshold: float = Field(0.85, ge=0.5, le=1)
    """Jaccard similarity of word shingles from which a document counts as a near-duplicate of another."""

    # Feedback, the hypothesis without a language model
    feedback_alpha: float = Field(0.6, ge=0.5, le=1)
    """Share of the question's own vector in the feedback vector; below a half the question drifts away (Li et
    al., TOIS 2023). .6 with passages weighted by their score measured better than .5 unweighted."""
    feedback_passages: int = Field(3, ge=1, le=50)
    """How many of the best BM25 passages the feedback vector is made of: 3 measured better than 5."""

    # The life of a request
    answer_ttl_s: float = Field(600, ge=1, le=86_400)
    """Seconds an answer can be fetched by its id after the request ended."""
    answer_limit_mb: float = Field(16, ge=0.1, le=24)
    """Largest answer in MB (1,000,000 bytes): what is larger has its hits' ids and scores alone, and says so. Redis
    cuts off a waiting caller to whom more than 32 MB are to be sent at once."""
    cache_ttl_s: float = Field(3_600, ge=0, le=2_592_000)
    """Seconds a whole answer may be given again for an equal question; 0 turns the cache off. A change of the
    corpus makes it forget sooner."""
    resend_after_s: float = Field(0.4, ge=0.05, le=30)
    """Seconds after which a part that nobody started is sent again: above the usual wait in a queue, well
    under a request's time."""
    sweep_interval_s: float = Field(0.02, ge=0.001, le=1)
    """Longest sleep in seconds of a sweeper between two looks at the ledger: how late an end can be."""
    sweeper_threads: bool = True
    """Run a sweeper as a thread of every worker that is not forked, so that requests end on time even without
    a process of its own for it."""
    drain: bool = True
    """`chorale sweeper` also moves ended requests from Redis into the audit tables. Off: another process does."""
    outbox_limit: int = Field(PROTOCOL.default_outbox_limit, ge=0, le=10_000_000)
    """Ended requests that may wait in Redis for the audit tables; 0: any number. From half of it on they wait without
    their candidates (usually 6 KB each instead of 41), and at it new requests are refused and only counted. The default
    is about a quarter of a gigabyte, of the one that `docker-compose.yml` gives Redis."""
    breaker_failures: int = Field(5, ge=0, le=1_000)
    """Failures in a row after which a branch or a store is not asked for a while; 0: never. One or two are
    chance, and every further one costs a request its whole time."""
    breaker_open_s: float = Field(5, ge=0.1, le=3_600)
    """Seconds until one request tries again what is not asked: about what a worker needs to come back."""
    admission_length: int = Field(1_000, ge=0, le=10_000_000)
    """Messages waiting on a queue from which its branch is left out, or for `retrieve` and `fusion` new requests
    are refused; 0: off. Far above what a worker serves in the default time of a request (2 s)."""
    admission_age_s: float = Field(1, ge=0, le=3_600)
    """The same by seconds that the oldest of at least ten messages has waited; 0: off. Half the default time of a
    request: what waits longer has too little left. A branch is still asked by who has twice the wait to spare."""
    lean: bool = True
    """Publish the chord in one trip and let the ledger keep its messages. Off: a plain `celery.chord`, several
    times slower, with no private interface of Celery."""
    soft_shutdown_s: float = Field(8, ge=0, le=3_600)
    """Seconds that a worker which is told to stop may go on with what it has begun; then that goes back to its
    queue, for another one. Below the ten seconds after which `chorale up` and Docker kill."""
    worker_processes: dict[str, int] = Field(default_factory=dict)
    """Processes for each queue that `chorale up` starts, as `bm25=2,chorale.fusion=2`; one where nothing is
    said, 0 for a queue that other machines serve."""

    # Redis
    redis_socket_timeout_s: float = Field(5, gt=0, le=60)
    """Seconds until a command that Redis does not answer counts as failed; short, since a caller waits."""
    redis_connect_timeout_s: float = Field(2, gt=0, le=60)
    """Seconds until a connection to Redis that does not come about counts as failed."""

    # What is kept and shown
    audit_texts: bool = True
    """Keep the questions' texts in the audit tables. Off: only their hashes."""
    log_texts: bool = False
    """Put questions' texts on log lines. Off by default: logs travel further than databases."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    """The least severe log line that is written. `INFO` has a line for each stage of each request, which busy
    workers feel."""
    log_format: Literal["json", "console"] = "console"
    """`json`: one object a line, for machines; `console`: for people."""
    task_events: bool = False
    """Send Celery's task events, which Flower watches. They cost a quarter of the throughput."""

    @field_validator("home", "pipeline_file", mode="after")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        # Absolute from the start: workers may be started in other folders.
        return None if value is None else value.expanduser().absolute()

    @field_validator("redis_url")
    @classmethod
    def _is_redis(cls, value: str | None) -> str | None:
        return value and check_redis(value)

    @field_validator("broker_url")
    @classmethod
    def _is_broker(cls, value: str | None) -> str | None:
        return value and check_broker(value)

    @field_validator("audit_url", "documents_url")
    @classmethod
    def _is_database(cls, value: str | None) -> str | None:
        return value and check_database(value)

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("worker_processes", mode="before")
    @classmethod
    def _counts_by_queue(cls, value: Any) -> Any:
        if isinstance(value, str):
            pairs = [part.partition("=") for part in value.split(",") if part.strip()]
            value = {queue.strip(): count.strip() for queue, _, count in pairs}
        if not isinstance(value, Mapping):
            raise ValueError("counts by queue look like bm25=2,fusion=2")
        counts: dict[str, int] = {}
        for queue, count in value.items():
            name = queue if queue.startswith("chorale.") else QUEUE_BRANCH.format(branch=queue)
            if not re.fullmatch(r"chorale\.[a-z][a-z0-9_.]*", name) or not re.fullmatch(
                r"\d{1,3}", str(count)
            ):
                raise ValueError(
                    f"{queue}={count}: counts by queue look like bm25=2,fusion=2 (0 to 999 each)"
                )
            counts[name] = int(count)
        return counts

    @property
    def corpus_dir(self) -> Path:
        """Folder of the embedded store: documents, vectors, lexical indexes."""
        return self.home / "corpus"

    @property
    def audit_database_url(self) -> str:
        """SQLAlchemy address of the audit tables."""
        return self.audit_url or f"sqlite:///{self.home / 'audit.db'}"

    @property
    def documents_database_url(self) -> str:
        """SQLAlchemy address of the table of documents."""
        shared = self.audit_url if (self.audit_url or "").startswith("postgresql") else None
        return self.documents_url or shared or f"sqlite:///{self.home / 'documents.db'}"

    @property
    def answer_limit_bytes(self) -> int:
        return round(self.answer_limit_mb * 1_000_000)

    def processes(self, queue: str) -> int:
        """How many worker processes `chorale up` starts for `queue` (its full name, `chorale.bm25`)."""
        return self.worker_processes.get(queue, 1)


def load_settings() -> Settings:
    """Read the environment; raises WrongDeclaration with one line for each wrong variable."""
    try:
        return Settings()
    except ValidationError as error:
        raise WrongDeclaration("\n".join(_complaint(found) for found in error.errors())) from None


def _complaint(found: Any) -> str:
    field = str(found["loc"][0])
    given = "" if field in _SECRET else f"={str(found['input'])[:80]!r}"
    return f"{PREFIX}{field.upper()}{given}: {found['msg'].removeprefix('Value error, ')}"


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Variables that look like settings and are none, each with the setting that may have been meant."""
    known = [name.upper() for name in Settings.model_fields]
    meant: dict[str, str | None] = {}
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and not variable.startswith(_NOT_SETTINGS) and name not in known:
            meant[variable] = next((PREFIX + match for match in get_close_matches(name, known, 1)), None)
    return meant
