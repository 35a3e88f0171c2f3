"""Which queues the processes of `chorale up` serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assembly.pipeline import load_pipeline
from assembly.resources import Resources
from cli.local.processes import worker_children
from config.settings import Settings, load_settings
from models.errors import WrongDeclaration

Cores = Callable[[int], None]
REPLICAS = ["retrieve-1", "replica-1", "replica-2"]


def names(settings: Settings, file: Path | None = None) -> list[str]:
    return [child.name for child in worker_children(settings, load_pipeline(file), {})]


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


def test_one_core_has_two_replicas_too(cores: Cores) -> None:
    cores(1)
    assert names(Settings()) == [*REPLICAS, "index-1", "bulk-1", "sweeper"]


def test_on_more_than_two_cores_the_branches_that_embed_questions_share_a_process(cores: Cores) -> None:
    cores(3)
    children = worker_children(Settings(), load_pipeline(), {})
    assert [child.name for child in children] == [
        "retrieve-1", "vector+hyde-1", "bm25-1", "fusion-1", "index-1", "bulk-1", "bulk-2", "bulk-3", "sweeper",
    ]  # fmt: skip
    assert children[1].argv[4:] == ("chorale.vector", "chorale.hyde", "--name", "vector+hyde-1")
    counted = Settings(worker_processes={"chorale.hyde": 2})
    assert names(counted)[1:5] == ["vector-1", "bm25-1", "hyde-1", "hyde-2"]


def test_the_setting_chooses_the_layout_on_any_number_of_cores(cores: Cores) -> None:
    cores(4)
    assert names(Settings(layout="replicas"))[:6] == [*REPLICAS, "replica-3", "replica-4", "index-1"]
    cores(2)
    assert "vector-1" in names(Settings(layout="queues"))


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
    cores: Cores, tmp_path: Path, more: str
) -> None:
    cores(2)
    file = tmp_path / "pipeline.toml"
    declared = (
        '[stores.local]\nkind = "embedded"\n'
        '[branches.bm25]\nkind = "bm25"\ngroup = "lexical"\nstore = "local"\n'
    )
    file.write_text(declared)
    assert names(Settings(), file)[:3] == REPLICAS
    file.write_text(declared + more)
    assert "bm25-1" in names(Settings(), file)
    assert not [name for name in names(Settings(), file) if "+" in name]


def test_a_count_for_a_queue_of_requests_chooses_the_layout_queues(cores: Cores) -> None:
    cores(2)
    assert "bm25-2" in names(Settings(worker_processes={"chorale.bm25": 2}))
    assert names(Settings(worker_processes={"chorale.index": 0, "chorale.bulk": 0})) == [*REPLICAS, "sweeper"]


def test_replicas_and_a_count_for_a_queue_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHORALE_LAYOUT", "replicas")
    monkeypatch.setenv("CHORALE_WORKER_PROCESSES", "vector=2,index=0")
    with pytest.raises(WrongDeclaration) as raised:
        load_settings()
    assert str(raised.value) == (
        "CHORALE_LAYOUT='replicas': a replica serves every queue, and CHORALE_WORKER_PROCESSES counts vector"
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
