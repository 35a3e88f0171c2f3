"""Which processes `chorale up` starts, with what, and which queues they serve."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

import pytest

from cli.local.child_process import JsonLines, PrefixedLines
from cli.local.processes import worker_children
from config.declarations import Pipeline
from config.settings import Settings, load_settings
from models.errors import WrongDeclaration
from monitoring.heartbeats import Heartbeat, RedisHeartbeats, parse_heartbeat
from tasks.wiring.pipeline import load_pipeline
from tasks.wiring.resources import Resources
from tests.support.faults.refusals import Refusal, full, read_only
from tests.support.pipelines.pipeline_files import BM25_ALONE, Declares
from tests.support.servers.redis_server import RedisServer


def test_in_the_layout_queues_up_starts_one_process_for_each_queue_and_a_sweeper() -> None:
    settings = Settings(
        layout="queues", worker_processes={"chorale.bulk": 1, "chorale.bm25": 2, "chorale.index": 0}
    )
    children = worker_children(settings, load_pipeline(), {"A": "b"})
    names = "retrieve-1 bm25-1 bm25-2 vector-1 hyde-1 fusion-1 bulk-1 sweeper"
    assert [child.name for child in children] == names.split()
    assert children[1].argv == (sys.executable, "-m", "cli", "worker", "chorale.bm25", "--name", "bm25-1")
    assert children[-1].argv == (sys.executable, "-m", "cli", "sweeper", "--name", "sweeper")
    environment = {"A": "b", "CHORALE_LAYOUT": "queues"}
    assert all(child.env == environment and child.level == 1 and child.beats for child in children)


def test_an_unknown_queue_is_refused_with_the_list_of_queues() -> None:
    settings = Settings(worker_processes={"chorale.nosuch": 2, "chorale.bm25": 2, "chorale.bm52": 0})
    reason = "CHORALE_WORKER_PROCESSES: no queue bm52, nosuch; there are: retrieve, bm25, vector, hyde, fusion, index, bulk"
    with pytest.raises(WrongDeclaration, match=f"^{reason}$"):
        worker_children(settings, load_pipeline(), {})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"at": 9500, "ready": true, "pid": 1}', Heartbeat("a", 0.5, is_ready=True, pid=1)),
        (b'{"at": 10500, "ready": false}', Heartbeat("a", 0.0, is_ready=False)),
        (b'{"at": "x", "ready": true}', None),
        (b"[]", None),
        (b"{", None),
        (None, None),
    ],
)
def test_a_heartbeat_is_as_old_as_the_redis_clock_says(
    value: bytes | None, expected: Heartbeat | None
) -> None:
    assert parse_heartbeat("a", value, now_ms=10_000) == expected


def test_while_redis_does_not_answer_heartbeats_are_unknown_and_that_of_redis_is_missing(
    own_redis_server: RedisServer,
) -> None:
    with own_redis_server.client() as client:
        seconds, _ = client.time()
        client.set("chorale:heartbeat:a", json.dumps({"at": seconds * 1000, "ready": True, "pid": 1}))
    heartbeats = RedisHeartbeats(own_redis_server.url, server="redis")
    known = heartbeats(["redis", "a", "b"])
    assert known.keys() == {"redis", "a"}
    assert known["redis"] == Heartbeat("redis", 0.0, is_ready=True)
    own_redis_server.pause()
    assert heartbeats(["redis", "a", "b"]) == {"a": None, "b": None}
    own_redis_server.resume()
    assert heartbeats(["redis", "a", "b"]).keys() == {"redis", "a"}


@pytest.mark.parametrize("refusing", [read_only, full])
def test_while_redis_takes_no_writes_it_lives_and_heartbeats_are_unknown(
    own_redis_server: RedisServer, refusing: Refusal
) -> None:
    heartbeats = RedisHeartbeats(own_redis_server.url, server="redis")
    assert heartbeats(["redis", "a"]).keys() == {"redis"}
    with refusing(own_redis_server):
        assert heartbeats(["redis", "a"]) == {"redis": Heartbeat("redis", 0.0, is_ready=True), "a": None}
    assert heartbeats(["redis", "a"]).keys() == {"redis"}


def test_each_output_line_names_its_process() -> None:
    plain, lines = io.StringIO(), io.StringIO()
    output = PrefixedLines(plain, ["redis", "bm25-1"])
    output("redis", b"up")
    output("bm25-1", b"caf\xe9")
    assert plain.getvalue() == "redis  │ up\nbm25-1 │ caf\ufffd\n"
    plain.close()
    output("redis", b"nobody listens any more, and that is no error")

    for line in (b"up", b'{"event": "stage", "ms": 1}', b"[1]"):
        JsonLines(lines)("bm25-1", line)
    assert [json.loads(line) for line in lines.getvalue().splitlines()] == [
        {"process": "bm25-1", "line": "up"},
        {"process": "bm25-1", "event": "stage", "ms": 1},
        {"process": "bm25-1", "line": "[1]"},
    ]


Cores = Callable[[int], None]
REPLICAS = ["retrieve-1", "replica-1", "replica-2"]


def names_of(settings: Settings, pipeline: Pipeline | None = None) -> list[str]:
    return [child.name for child in worker_children(settings, pipeline or load_pipeline(), {})]


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Cores:
    """Sets the number of cores that the process may use."""

    def have(count: int) -> None:
        monkeypatch.setattr("config.settings.cores", lambda: count)
        monkeypatch.setattr("cli.local.processes.cores", lambda: count)

    return have


def test_on_two_cores_two_replicas_serve_all_branches_and_the_fusion(cores: Cores) -> None:
    cores(2)
    children = worker_children(Settings(), load_pipeline(), {"A": "b"})
    served = [f"chorale.{queue}" for queue in ("bm25", "vector", "hyde", "fusion")]
    assert [child.argv[4:] for child in children] == [
        ("chorale.retrieve", "--name", "retrieve-1"),
        (*served, "--name", "replica-1"),
        (*served, "--name", "replica-2"),
        ("chorale.index", "--name", "index-1"),
        ("chorale.bulk", "--name", "bulk-1"),
        ("chorale.bulk", "--name", "bulk-2"),
        ("--name", "sweeper"),
    ]
    assert all(child.env == {"A": "b", "CHORALE_LAYOUT": "replicas"} for child in children)


def test_on_more_than_two_cores_the_branches_that_embed_questions_share_a_process(cores: Cores) -> None:
    cores(3)
    children = worker_children(Settings(), load_pipeline(), {})
    assert [child.name for child in children] == [
        "retrieve-1", "vector+hyde-1", "bm25-1", "fusion-1", "index-1", "bulk-1", "bulk-2", "bulk-3", "sweeper",
    ]  # fmt: skip
    assert children[1].argv[4:] == ("chorale.vector", "chorale.hyde", "--name", "vector+hyde-1")
    counted = Settings(worker_processes={"chorale.hyde": 2})
    assert names_of(counted)[1:5] == ["vector-1", "bm25-1", "hyde-1", "hyde-2"]


def test_the_setting_or_a_count_for_a_queue_of_requests_chooses_the_layout(cores: Cores) -> None:
    cores(4)
    assert names_of(Settings(layout="replicas"))[:6] == [*REPLICAS, "replica-3", "replica-4", "index-1"]
    cores(2)
    assert "vector-1" in names_of(Settings(layout="queues"))
    assert "bm25-2" in names_of(Settings(worker_processes={"chorale.bm25": 2}))
    assert names_of(Settings(worker_processes={"chorale.index": 0, "chorale.bulk": 0})) == [
        *REPLICAS,
        "sweeper",
    ]
    cores(1)
    assert names_of(Settings()) == [*REPLICAS, "index-1", "bulk-1", "sweeper"]


@pytest.mark.parametrize(
    "more",
    [
        '[branches.asks]\nkind = "hyde"\ngroup = "g"\nstore = "local"\n'
        'options = { generator = "openai", url = "http://127.0.0.1:1/v1", model = "m" }\n',
        '[stores.web]\nkind = "http"\noptions = { url = "http://127.0.0.1:1/{question}", hits = "hits", id = "id" }\n',
        '[configurations.fine]\nmethod = "rrf"\nreranker = "fine"\n[rerankers.fine]\nmodel = "m"\n',
    ],
    ids=["language model", "http source", "reranker"],
)
def test_a_pipeline_that_waits_or_reranks_has_a_process_for_each_queue(
    cores: Cores, declares: Declares, more: str
) -> None:
    cores(2)
    assert names_of(Settings(), declares(BM25_ALONE))[:3] == REPLICAS
    names = names_of(Settings(), declares(BM25_ALONE + more))
    assert "bm25-1" in names
    assert not [name for name in names if "+" in name]


def test_replicas_and_a_count_for_a_queue_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_LAYOUT", "replicas")
    monkeypatch.setenv("CHORALE_WORKER_PROCESSES", "vector=2,index=0")
    with pytest.raises(WrongDeclaration) as raised:
        load_settings()
    assert str(raised.value) == (
        "CHORALE_LAYOUT='replicas': a replica serves every queue, so CHORALE_WORKER_PROCESSES cannot count vector"
    )


@pytest.mark.parametrize(("layout", "threads"), [("replicas", 1), ("queues", 4)])
def test_all_models_together_have_no_more_threads_than_cores_in_either_layout(
    cores: Cores, layout: str, threads: int
) -> None:
    cores(8)
    settings = Settings(model_threads=8, layout=layout)
    resources = Resources(settings, load_pipeline(), "redis://unused")
    assert resources.threads_for_a_model == threads
    resources.answers_jobs = True
    assert resources.threads_for_a_model == 2, "four processes answer bulk jobs"
