"""`chorale doctor` runs the Cypher of the declaration."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.installation import Installation
from config.settings import Settings
from tests.contracts.store_documents import MANIFEST, document
from tests.integration.cli.commands.findings import findings, the_finding
from tests.support.pipelines.pipeline_files import LOCAL, branch
from tests.support.servers.redis_server import RedisServer
from tests.support.stores.one_engine import embedded_store

GRAPH = '[stores.cites]\nkind = "graph"\noptions = { documents = "local", links = { CITES = "cites" } }\n'


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("MATCH (a) WHERE a.id IN $filter_owner RETURN a.id AS id", None),
        (
            "MATCH (a)\nRETURN a.id b c",
            "store 'cites' (not_configured): Cypher syntax error at line 2, col 13",
        ),
        ("MATCH (a) RETURN a.title", "no column 'id'"),
    ],
)
def test_a_wrong_statement_is_found_with_its_place(
    statement: str, words: str | None, own_redis_server: RedisServer, tmp_path: Path
) -> None:
    file = tmp_path / "pipeline.toml"
    graph_branch = branch("graph", store="cites", more=f"options = {{ cypher = '''{statement}''' }}")
    file.write_text(LOCAL + GRAPH + graph_branch)
    settings = Settings(home=tmp_path, redis_url=own_redis_server.url, pipeline_file=file)
    installation = Installation(settings, own_redis_server.url)
    assert installation.pipeline.capabilities == ("db.local:read", "db.local:write", "db.cites:read")
    store = embedded_store(settings.home / "corpus")
    assert findings(installation, "stores") == [], "without documents there is no graph"
    store.create("default", MANIFEST)
    store.upsert("default", [document("a", "One page.")])
    if words is None:
        assert findings(installation, "stores") == []
    else:
        assert words in the_finding(installation, "stores").what
    store.close()
    installation.resources.writing_store.close()
