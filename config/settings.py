"""The settings of one installation: `CHORALE_<NAME>` in the environment, read once when a process starts.

What is ranked and where it is searched is the pipeline's declaration (`config.pipeline_reader`), not a setting.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from chorale_client.connections.urls import cell_addresses, server_of
from chorale_client.protocol_constants import PROTOCOL
from chorale_client.wire_names import QUEUE_BRANCH, QUEUE_BULK, QUEUE_INDEX, QUEUE_RETRIEVE
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from config.addresses import check_broker, check_database, check_postgresql, check_redis
from config.home import shared_environment
from models.declarations.extensions import Revision
from models.errors import WrongDeclaration

UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def seconds_in(text: str) -> int | None:
    """None if the text is no whole number with one of these units."""
    match = re.fullmatch(r"([0-9]{1,18})([smhd])", text)
    return None if match is None else int(match[1]) * UNITS_S[match[2]]


PREFIX = "CHORALE_"
_NOT_SETTINGS = ("CHORALE_TEST_", "CHORALE_SERVICES")
"""Prefixes of variables that are not settings, such as the addresses of the test servers."""


_ADDRESSES = {
    "redis_url": check_redis, "broker_url": check_broker, "audit_url": check_database, "documents_url": check_database,
    "database_url": check_postgresql
}  # fmt: skip


def _default_home() -> Path:
    """`$XDG_DATA_HOME/chorale`, else `~/.local/share/chorale`; a relative XDG path is ignored (XDG 0.8)."""
    data = Path(os.environ.get("XDG_DATA_HOME") or "")
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "chorale"


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _listed(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]


class Settings(BaseModel):
    """One installation's settings: the given values, else those of the environment, else the defaults.

    An empty environment variable counts as not set.  Settings with `repr=False` are or contain secrets; errors do not
    quote them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    def __init__(self, **values: Any) -> None:
        variables = {name.upper(): value for name, value in os.environ.items() if value}
        names = {name: f"{PREFIX}{name.upper()}" for name in type(self).model_fields}
        from_environment = {
            name: variables[variable] for name, variable in names.items() if variable in variables
        }
        super().__init__(**{**from_environment, **values})

    # Where things are
    home: Path = Field(default_factory=_default_home)
    """Folder of all data."""
    redis_url: str | None = Field(None, repr=False)
    """Redis for ledger, results and cache (`redis://`, `rediss://`, `unix://`, `redis+socket://`). Not set: that of `chorale up`."""
    broker_url: str | None = Field(None, repr=False)
    """Celery's broker, if it is not the same Redis (`amqp://…` for RabbitMQ)."""
    cells: dict[str, str] = Field(default_factory=dict, repr=False)
    """Several [cells](../operate.md#cells) with the same documents, as `a=redis://…/0,b=redis://…/0`: the Redis of each by its name."""
    database_url: str | None = Field(None, repr=False)
    """Address of a PostgreSQL (`postgresql://…`) for the audit tables, the documents, and stores of kind `postgresql`.
    `CHORALE_AUDIT_URL`, `CHORALE_DOCUMENTS_URL` and `url_env` of a store give one of them another address. Not set: these settings, and
    no store of that kind."""
    audit_url: str | None = Field(None, repr=False)
    """SQLAlchemy URL of the audit tables, such as `postgresql+psycopg://…`. Not set: `CHORALE_DATABASE_URL`, else SQLite in
    `home/audit.db`."""
    documents_url: str | None = Field(None, repr=False)
    """SQLAlchemy URL of the documents. Not set: `CHORALE_DATABASE_URL`, else `CHORALE_AUDIT_URL` if that is PostgreSQL, else SQLite
    in `home/documents.db`."""
    pipeline_file: Path | None = None
    """The pipeline file, TOML or YAML. Not set: `config/pipeline.toml`."""

    # Models and documents
    embedder: str = Field("sentence-transformers/all-MiniLM-L6-v2", min_length=1)
    """The model that turns texts into vectors: a name on the Hugging Face hub, or a folder. A namespace
    refuses another model until it is rebuilt."""
    embedder_revision: Revision | None = None
    """Commit, tag or branch of an embedder on the hub. Files that change later are refused
    (`home/model_hashes`). Not set: `main`; for the default embedder its installed package."""
    pickled_weights: bool = False
    """Load pickled weights if a model has no safetensors. A pickle can run code."""
    embedder_backend: str = Field("onnx", min_length=1)
    """Library of the model: `onnx` (the BERT family, and models with an ONNX file) or `sentence_transformers`
    (any model; needs `make torch`)."""
    embedder_document_precision: Literal["fp32", "int8"] = "fp32"
    """Precision of documents' vectors. `int8` (`onnx` with the BERT family) is faster, with slightly different vectors.
    A namespace keeps the precision of its vectors until it is rebuilt."""
    embedder_question_precision: Literal["fp32", "int8"] = "fp32"
    """Precision of questions' vectors. A worker that needs both precisions, also for a namespace in the other one, holds two models in
    memory."""
    embedder_device: str | None = None
    """`cpu`, `cuda` or `cuda:1`. Not set: CUDA if available (`onnx` needs `onnxruntime-gpu` for it), else the CPU."""
    model_threads: int = Field(default_factory=cores, ge=1, le=1_024)
    """Threads of all models on this machine together."""
    passage_pieces: int | None = Field(None, ge=16, le=32_768)
    """Maximum size of a passage in the embedder's word pieces, with heading and title. More than 256 count as 256.
    Not set: as many as the embedder reads."""
    language: str | None = Field(None, pattern=r"^([a-z]{2}|none)$")
    """Language of new namespaces for BM25 (`en`, `it`, …); `none`: no stemming and no stop words. Not set: that of
    the first documents."""
    near_duplicate_threshold: float = Field(0.6, ge=0.5, le=1)
    """Jaccard similarity (shingles of three words) from which two documents are near-duplicates."""
    read_time_s: float = Field(60, ge=0.1, le=86_400)
    """Maximum seconds to read a file, or one record of it."""
    read_memory_mb: float = Field(1_000, ge=50, le=1_000_000)
    """Maximum memory in MB to read a file; elsewhere than on Linux a file may exceed it for a moment."""
    read_output_mb: float = Field(100, ge=1, le=10_000)
    """Maximum text in MB of a file, or of one record of it."""

    context_tokenizer: Path | None = None
    """`tokenizer.json` of the language model that reads contexts. Not set: the embedder's tokenizer."""

    confidence_file: Path | None = None
    """Factors of the confidence for other models, written by `examples/confidence/train.py`."""

    # Feedback: the hypothesis without a language model
    feedback_alpha: float = Field(0.6, ge=0.5, le=1)
    """Share of the question's own vector in the feedback vector."""
    feedback_passages: int = Field(3, ge=1, le=50)
    """Number of BM25 passages in the feedback vector."""

    # The life of a request
    answer_ttl_s: float = Field(600, ge=1, le=86_400)
    """Seconds for which an answer can be fetched after the end of its request."""
    answer_limit_mb: float = Field(16, ge=0.1, le=24)
    """Largest answer in MB. A larger answer has only the ids and scores of its hits, and a warning."""
    cache_ttl_s: float = Field(3_600, ge=0, le=2_592_000)
    """TTL in seconds of complete answers in the cache; 0 turns the cache off."""
    resend_after_s: float = Field(0.4, ge=0.05, le=30)
    """Seconds after which a part that no worker has started is sent again."""
    sweep_interval_s: float = Field(0.05, ge=0.001, le=0.1)
    """Longest sleep in seconds of a sweeper; a request can end late by up to this."""
    sweeper_threads: bool = True
    """Run a sweeper thread in every worker that is not forked."""
    drain: bool = True
    """`chorale sweeper` also moves ended requests from Redis to the audit tables. Off: another process does it."""
    outbox_limit: int = Field(PROTOCOL.default_outbox_limit, ge=0, le=10_000_000)
    """Maximum number of ended requests that wait in Redis for the audit tables (10,000: about 250 MB). At the limit,
    new requests are refused. 0: unlimited."""
    breaker_failures: int = Field(5, ge=0, le=1_000)
    """Consecutive failures after which a branch or store is left out for a while; 0: never."""
    breaker_open_s: float = Field(5, ge=0.1, le=3_600)
    """Seconds until one request tries such a branch or store again."""
    admission_length: int = Field(1_000, ge=0, le=10_000_000)
    """Maximum length of a queue; 0: off. Above it, requests leave out the queue's branch; for `retrieve` and
    `fusion`, new requests are refused."""
    admission_age_s: float = Field(1, ge=0, le=3_600)
    """Maximum age in seconds of the oldest message in a queue of ten or more, with the same effect; 0: off."""
    lean: bool = True
    """Publish the chord in one round trip. Off: a plain `celery.chord`, several times slower."""
    batch: int = Field(8, ge=1, le=64)
    """Maximum number of messages that a worker takes together from a queue."""
    costly_s: float = Field(0.25, ge=0.01, le=60)
    """A request with a step that is estimated to take longer than this on one core runs on the bulk workers, if there are any."""
    job_retention_days: float = Field(30, ge=0, le=36_500)
    """Days for which a bulk job is kept after its end; 0: until `chorale jobs prune`."""
    on_end_queues: tuple[str, ...] = ()
    """Queues of other applications, such as `app,reports`, that may get a task at the end of a request or job."""
    signing_key: str | None = Field(None, repr=False)
    """Signs plans and answers of branches: a text of at least 32 characters, the same in every process. Of two,
    separated by a comma, the first signs and both verify. Not set: a random key in Redis."""
    webhook_secret: str | None = Field(None, repr=False)
    """Signs webhooks: a text of at least 16 characters, or `whsec_` and base64. Two, separated by a comma, both sign.
    Without it jobs with a webhook are refused."""
    webhook_hosts: tuple[Annotated[str, StringConstraints(to_lower=True)], ...] = ()
    """Hosts that webhooks may call at addresses that are not public, and by `http://`."""
    soft_shutdown_s: float = Field(8, ge=0, le=3_600)
    """Seconds that a worker has to finish its task before it stops. `chorale up` and Docker kill it after 10."""
    worker_processes: dict[str, int] = Field(default_factory=dict)
    """Processes that `chorale up` starts for each queue, such as `bm25=2,fusion=2`; 0: other machines serve it.
    Not set: 1, for `bulk` one for each core, at most 4."""
    layout: Literal["auto", "replicas", "shared", "queues"] = "auto"
    """Which queues share a [process](../start.md#processes) of `chorale up`. `auto`: `replicas` on two cores or fewer,
    if no queue needs processes of its own, otherwise `shared`."""

    # Redis
    redis_socket_timeout_s: float = Field(5, gt=0, le=60)
    """Seconds without an answer after which a Redis command fails."""
    redis_connect_timeout_s: float = Field(2, gt=0, le=60)
    """Seconds after which connecting to Redis fails."""
    redis_replicas: int = Field(0, ge=0, le=10)
    """Number of Redis' replicas that must have a request before the HTTP API answers 202."""

    # What is kept and shown
    audit_texts: bool = True
    """Store the texts of questions, filters and tags in the audit tables. Off: only hashes of the questions."""
    audit_hash_key: str | None = Field(None, min_length=32, repr=False)
    """Key of these hashes (HMAC-SHA-256). Set it if several machines write the tables. Not set: one in
    `home/audit_key`."""
    audit_hits_share: float = Field(1.0, ge=0, le=1)
    """Share of the requests whose hits and candidates are in the audit tables. Requests, questions and branches always are."""
    audit_keep: str | None = None
    """Time, such as `90d` or `12h`, after which requests are deleted from the audit tables. Not set: never."""
    log_texts: bool = False
    """Write the texts of questions to the log and to traces, and show them in Flower."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    """Least severe level in the log. `INFO` writes a line for each request, `DEBUG` also one for each stage, which
    slows down busy workers."""
    log_format: Literal["json", "console"] = "console"
    """`json` for machines, `console` for people."""
    task_events: bool = False
    """Show requests, jobs and messages of documents in Flower. Off: only workers and queues."""
    remote_control: bool = False
    """Let workers obey Celery's remote control: then other logins can stop workers."""

    @field_validator("home", "pipeline_file", "context_tokenizer", "confidence_file", mode="after")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        # Workers may be started in other folders.
        return None if value is None else value.expanduser().absolute()

    @field_validator(*_ADDRESSES)
    @classmethod
    def _is_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        return value and _ADDRESSES[str(info.field_name)](value)

    @field_validator("cells", mode="before")
    @classmethod
    def _addresses_by_name(cls, value: Any, info: ValidationInfo) -> Any:
        named = cell_addresses(value, info.data.get("broker_url")) if isinstance(value, str) else value
        return {name: check_redis(url) for name, url in named.items()}

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("on_end_queues", "webhook_hosts", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return _listed(value) if isinstance(value, str) else value

    @field_validator("on_end_queues")
    @classmethod
    def _queues_of_others(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(queue.startswith("chorale.") for queue in value):
            raise ValueError("a queue of the pipeline; only queues of other applications are allowed")
        return value

    @field_validator("signing_key")
    @classmethod
    def _are_keys(cls, value: str | None) -> str | None:
        keys = _listed(value)
        if len(keys) > 2 or any(len(key) < 32 for key in keys):
            raise ValueError("one or two texts of at least 32 characters, separated by a comma")
        return value

    @field_validator("audit_keep")
    @classmethod
    def _is_time(cls, value: str | None) -> str | None:
        if value and not seconds_in(value):
            raise ValueError("a time is a whole number and one of s, m, h, d, as in 90d")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _are_secrets(cls, value: str | None) -> str | None:
        secrets = _listed(value)
        if len(secrets) > 2:
            raise ValueError("one secret, or two with a comma between them")
        for secret in secrets:
            if len(secret) < 16:
                raise ValueError("a secret has at least 16 characters")
            if secret.startswith("whsec_"):
                try:
                    b64decode(secret.removeprefix("whsec_"), validate=True)
                except ValueError:
                    raise ValueError("what follows whsec_ is not base64") from None
        return value

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

    @field_validator("layout")
    @classmethod
    def _counts_no_queue_of_replicas(cls, value: str, info: ValidationInfo) -> str:
        counted = info.data.get("worker_processes", {}).keys() - {QUEUE_RETRIEVE, QUEUE_INDEX, QUEUE_BULK}
        if value == "replicas" and counted:
            names = ", ".join(sorted(queue.removeprefix("chorale.") for queue in counted))
            raise ValueError(
                f"a replica serves every queue, so CHORALE_WORKER_PROCESSES cannot count {names}"
            )
        return value

    def cell_at(self, redis_url: str) -> str | None:
        """The name of the cell with this Redis; the logins of two addresses may differ."""
        return next(
            (name for name, url in self.cells.items() if server_of(url) == server_of(redis_url)), None
        )

    @property
    def audit_database_url(self) -> str:
        """SQLAlchemy address of the audit tables."""
        return self.audit_url or self.database_url or f"sqlite:///{self.home / 'audit.db'}"

    @property
    def audit_keep_s(self) -> int | None:
        return seconds_in(self.audit_keep) if self.audit_keep else None

    @property
    def documents_database_url(self) -> str:
        """SQLAlchemy address of the documents of servers and several stores."""
        shared = self.audit_url if (self.audit_url or "").startswith("postgresql") else None
        return self.documents_url or self.database_url or shared or f"sqlite:///{self.home / 'documents.db'}"

    @property
    def webhook_secrets(self) -> tuple[str, ...]:
        return tuple(_listed(self.webhook_secret))

    @property
    def signing_keys(self) -> tuple[bytes, ...]:
        return tuple(key.encode() for key in _listed(self.signing_key))

    @property
    def answer_limit_bytes(self) -> int:
        return round(self.answer_limit_mb * 1_000_000)

    def processes(self, queue: str) -> int:
        """How many worker processes `chorale up` starts for `queue` (its full name, `chorale.bm25`) in the layout `queues`."""
        return self.worker_processes.get(queue, min(4, cores()) if queue == QUEUE_BULK else 1)

    @property
    def replicas(self) -> int:
        """How many processes of the layout `replicas` serve the branches and the fusion."""
        return max(2, cores())


def load_settings() -> Settings:
    """Read the environment; raises WrongDeclaration, with one line for each wrong variable.

    Variables that are not set have the values of the `chorale up` that runs on this home."""
    try:
        settings = Settings()
        shared = shared_environment(settings.home)
        names = {f"{PREFIX}{name.upper()}": name for name in Settings.model_fields}
        return Settings(
            **{
                names[variable]: shared[variable]
                for variable in shared.keys() & names
                if not os.environ.get(variable)
            }
        )
    except ValidationError as error:
        raise WrongDeclaration("\n".join(_complaint(fault) for fault in error.errors())) from None


def _complaint(fault: Any) -> str:
    field = str(fault["loc"][0])
    value = f"={str(fault['input'])[:80]!r}" if Settings.model_fields[field].repr else ""
    return f"{PREFIX}{field.upper()}{value}: {fault['msg'].removeprefix('Value error, ')}"


def variables() -> frozenset[str]:
    """The names of all settings in the environment."""
    return frozenset(f"{PREFIX}{name.upper()}" for name in Settings.model_fields)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Variables with our prefix that are not settings, each with the most similar setting, if any."""
    known = [name.upper() for name in Settings.model_fields]
    suggestions: dict[str, str | None] = {}
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and not variable.startswith(_NOT_SETTINGS) and name not in known:
            suggestions[variable] = next(
                (PREFIX + match for match in get_close_matches(name, known, 1)), None
            )
    return suggestions
