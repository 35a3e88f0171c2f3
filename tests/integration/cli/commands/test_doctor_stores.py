"""What `chorale doctor` says of the stores: what may be done with each, and which do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cli.commands.doctor import Examined, show
from cli.doctor import stores
from cli.doctor.finding import Finding
from cli.installation import Installation
from config.settings import Settings
from search.http.source import HttpSource
from tests.support.servers.search_server import SearchServer, says, sends

PIPELINE = """
[stores.wiki]
kind = "http"
options = {{ url = "{url}?q={{question}}", id = "id", api_key_env = "WIKI_KEY", namespaces = ["theirs"] }}

[stores.local]
kind = "embedded"

[branches.wiki]
kind = "http"
group = "wiki"
store = "wiki"
"""


@pytest.fixture
def wiki() -> Iterator[SearchServer]:
    with SearchServer() as server:
        server.answer = says([{"id": 1}])
        yield server


@pytest.fixture
def installation(wiki: SearchServer, tmp_path: Path) -> Iterator[Installation]:
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE.format(url=wiki.url))
    made = Installation(Settings(home=tmp_path, pipeline_file=file), None)
    yield made
    source = made.resources.store("wiki")
    assert isinstance(source, HttpSource)
    source.close()


def finding(installation: Installation) -> Finding:
    (one,) = stores.answer(installation)
    return one


def test_stores_that_answer_a_search_give_no_finding(
    installation: Installation, wiki: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKI_KEY", "sesame-0815")
    assert list(stores.answer(installation)) == []
    assert [asked.headers["authorization"] for asked in wiki.asked] == ["Bearer sesame-0815"]


def test_a_refused_key_is_shouted_and_never_shown(
    installation: Installation, wiki: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKI_KEY", "sesame-0815")
    wiki.answer = sends(401)
    found = finding(installation)
    assert f"store 'wiki' (unauthorised): {wiki.url} answers 401" in found.what
    assert "right key" in found.mend
    assert "sesame" not in f"{found}"


def test_a_key_that_is_not_set_is_named(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WIKI_KEY", raising=False)
    assert "store 'wiki' (not_configured)" in finding(installation).what
    assert "the variable WIKI_KEY is not set" in finding(installation).what


def test_a_server_that_fails_is_named_with_what_to_do(
    installation: Installation, wiki: SearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKI_KEY", "sesame-0815")
    wiki.answer = sends(500)
    assert "(unavailable)" in finding(installation).what
    assert finding(installation).mend == "start that server, or correct the store's address in the pipeline"


def test_what_may_be_done_with_each_store_is_shown(installation: Installation) -> None:
    shown = StringIO()
    show(Console(file=shown, width=200), [Examined("stores")], installation.pipeline.capabilities)
    assert shown.getvalue().strip() == "well · 1 checks, nothing to mend · wiki:read local:read local:write"
