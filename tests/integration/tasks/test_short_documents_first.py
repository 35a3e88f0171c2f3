"""A namespace takes documents of every length, in every way and order: a first text is often too short to tell its language by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.cli.commands.printed import document
from tests.support.command_line import ROOT, in_process
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

Texts = Mapping[str, str]
"""Documents by their ids."""

Way = Callable[[str, Texts], int]
"""Indexes documents into a namespace; returns how many were added."""


def typed_on(page: str) -> Texts:
    """The documents that a reader of the page makes with `echo '…' > my-docs/…`."""
    return {
        name: text
        for text, name in re.findall(
            r"^echo '(.+)' > my-docs/(\S+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE
        )
    }


def pages(*names: str) -> Texts:
    return {name.replace("/", "-"): (ROOT / name).read_text("utf-8") for name in names}


README = typed_on("README.md")
START = typed_on("docs/start.md")
REAL = pages("SECURITY.md", "docs/guides/golden.md")
SENTENCES = {f"{n}.txt": text for n, text in enumerate(REAL["SECURITY.md"].split(".  ")[:3])}
ORDERS: Mapping[str, Sequence[Texts]] = {
    "README's sentence first": [README, REAL],
    "the three files of the start page first": [START, REAL],
    "the long ones first": [REAL, START],
    "together": [{**START, **REAL}],
    "one by one": [{name: text} for name, text in {**START, **SENTENCES, **REAL}.items()],
}
SLOW = {"one by one", "the long ones first"}
WAYS = ("here", "workers", "client", "http")
CASES = [
    # The client and the HTTP API hand in to the same workers.
    *((way, "README's sentence first") for way in WAYS),
    *((way, order) for way in WAYS[:2] for order in [*ORDERS][1:]),
]


@pytest.fixture(scope="module")
def api(pipeline: RunningPipeline) -> Iterator[HttpApi]:
    with HttpApi(pipeline.resources.settings) as server:
        yield server


@pytest.fixture
def namespace() -> str:
    return f"order-{uuid4().hex[:12]}"


@pytest.fixture
def way(request: pytest.FixtureRequest, pipeline: RunningPipeline, tmp_path: Path) -> Way:
    def by_command(namespace: str, texts: Texts) -> int:
        folder = tmp_path / uuid4().hex
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        words = ("index", str(folder), "-n", namespace, "--where", request.param, "--json")
        return int(document(in_process(*words, **pipeline.environment))["added"])

    def by_client(namespace: str, texts: Texts) -> int:
        client = pipeline.client()
        indexed = client.wait_visible(client.upsert(namespace, rows(texts)), wait_s=60)
        assert indexed.error is None
        return indexed.added

    def by_http(namespace: str, texts: Texts) -> int:
        api: HttpApi = request.getfixturevalue("api")
        with api.client() as client:
            handed_in = client.post(f"/v1/namespaces/{namespace}/documents", json={"documents": rows(texts)})
            place = handed_in.headers["location"]
            until(lambda: client.get(place).json()["state"] != "waiting", 60)
            ticket = client.get(place).json()
        assert ticket["state"] == "done", ticket
        return int(ticket["outcome"]["added"])

    def rows(texts: Texts) -> list[dict[str, str]]:
        return [{"id": name, "text": text} for name, text in texts.items()]

    return {"client": by_client, "http": by_http}.get(request.param, by_command)


@pytest.mark.parametrize(
    ("way", "order"),
    [pytest.param(way, order, marks=pytest.mark.slow if order in SLOW else ()) for way, order in CASES],
    indirect=["way"],
)
def test_short_and_long_documents_follow_each_other(
    pipeline: RunningPipeline, namespace: str, way: Way, order: str
) -> None:
    for texts in ORDERS[order]:
        assert way(namespace, texts) == len(texts)
    build = pipeline.resources.writing_store.known(namespace)
    assert build.manifest.known_words is not None


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_namespace_that_was_made_empty_takes_documents(
    pipeline: RunningPipeline, namespace: str, way: Way
) -> None:
    made = in_process("namespaces", "create", namespace, "--language", "en", **pipeline.environment)
    assert made.returncode == 0, made.stderr
    assert way(namespace, REAL) == len(REAL)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS[:2], indirect=True)
def test_whole_pages_follow_the_documents_of_the_readme(
    pipeline: RunningPipeline, namespace: str, way: Way
) -> None:
    every = pages(*(str(file.relative_to(ROOT)) for file in sorted((ROOT / "docs").glob("*.md"))))
    for texts in (README, every):
        assert way(namespace, texts) == len(texts)
