"""examples/fastapi, served by uvicorn: an article is found once it is saved, and a search is watched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.redis_server import free_port
from tests.support.waiting import until

FOLDER = Path(__file__).parents[2] / "examples" / "fastapi"


@pytest.fixture(scope="module")
def app(pipeline: RunningPipeline) -> Iterator[httpx.Client]:
    """A client of the application, which does not see this tree."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ["CHORALE_REDIS_URL"] = pipeline.server.tcp_url
    port = free_port()
    called = [sys.executable, "-I", "-m", "uvicorn", "--app-dir", str(FOLDER), "app:app", "--port", str(port)]
    with (
        subprocess.Popen(called, env=environ, cwd="/", stderr=subprocess.DEVNULL) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):

        def serves() -> bool:
            assert process.poll() is None
            try:
                return client.get("/nothing").status_code == 404
            except httpx.ConnectError:
                return False

        try:
            until(serves)
            yield client
        finally:
            process.terminate()


def test_an_article_is_found_as_soon_as_it_is_saved(app: httpx.Client) -> None:
    saved = app.put("/articles/1", params={"title": "Tea", "text": "Green tea is brewed at eighty degrees."})
    assert saved.json() == {"id": "article-1"}
    question = {"question": "how hot is the water for green tea?"}

    def answer_hits() -> list[dict[str, str]]:
        # On a busy machine half a second may be too short for any branch.
        hits: list[dict[str, str]] = app.get("/search", params=question).json()["hits"]
        return hits

    hit = until(answer_hits)[0]
    assert (hit["title"], hit["url"]) == ("Tea", "/articles/1")
    assert "eighty degrees" in hit["snippet"]


def test_a_search_is_watched_to_its_end(app: httpx.Client) -> None:
    begun = app.post("/searches", params={"question": "how is bread baked?"})
    assert begun.status_code == 202
    where = f"/searches/{begun.json()['id']}/events"
    lines = app.get(where).text.splitlines()
    stages = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert (stages[0], stages[-1]) == ("accepted", "ended")
    ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
    again = app.get(where, headers={"Last-Event-ID": ids[-2]}).text
    assert again.count("event: ") == 1
    assert app.get("/searches/nothing/events").status_code == 404
