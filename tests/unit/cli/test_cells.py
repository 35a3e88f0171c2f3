"""The commands of an installation with several cells."""

from __future__ import annotations

from chorale_client.cells import Placement

from cli.doctor import workers
from cli.installation import Installation
from config.settings import Settings

CELLS = {"a": "redis://127.0.0.1:1/0", "b": "redis://127.0.0.1:2/0"}
NAMESPACES = [f"n{number}" for number in range(8)]


def test_documents_go_through_the_redis_that_takes_those_of_their_namespace() -> None:
    installation = Installation(Settings(cells=CELLS), CELLS["a"])
    chosen = [installation.cell_of(namespace).redis_url for namespace in NAMESPACES]
    assert chosen == [Placement(CELLS).writer(namespace) for namespace in NAMESPACES]
    assert {*chosen} == {*CELLS.values()}


def test_without_cells_documents_go_through_the_one_redis() -> None:
    installation = Installation(Settings(cells={}), "redis://127.0.0.1:3/0")
    assert installation.cell_of("docs") is installation


def test_the_doctor_names_each_lost_cell_and_a_redis_that_is_that_of_none() -> None:
    installation = Installation(Settings(cells=CELLS), "redis://127.0.0.1:3/0")
    first, *lost = workers.cells(installation)
    assert first.what == "CHORALE_REDIS_URL is the Redis of no cell"
    assert [finding.what.partition(" at ")[0] for finding in lost] == [
        "cell a: the Redis",
        "cell b: the Redis",
    ]
