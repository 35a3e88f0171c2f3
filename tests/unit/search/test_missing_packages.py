"""A store whose client is not installed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from models.errors import NotConfigured
from search.kinds import KINDS


@pytest.mark.parametrize(
    ("kind", "options", "package"),
    [
        ("elasticsearch", {}, "elasticsearch~=8.19"),
        ("neo4j", {}, "neo4j"),
        ("opensearch", {}, "opensearch-py botocore"),
        ("postgresql", {}, "psycopg[binary]"),
        ("weaviate", {}, "weaviate-client"),
    ],
)
def test_the_error_names_the_commands_that_install_the_client(
    kind: str, options: dict[str, Any], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"search.engines.{kind}.store", None)
    with pytest.raises(NotConfigured) as raised:
        KINDS[kind].open("cluster", options)
    assert raised.value.detail.startswith("the store 'cluster' needs ")
    assert raised.value.detail.endswith(f"`make {kind}` or `pip install {package}` installs what is missing")
