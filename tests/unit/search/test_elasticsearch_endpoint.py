"""How an Elasticsearch is declared, and which parts of the declaration are never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.errors import NotConfigured, WrongDeclaration
from search.kinds import open_elasticsearch
from tests.support.pipelines import pipeline_files

DECLARED = """
[stores.texts]
kind = "elasticsearch"
options = {options}

[branches.bm25]
kind = "bm25"
group = "lexical"
store = "texts"
"""


def declared(folder: Path, options: str) -> Any:
    return pipeline_files.declared(folder, DECLARED.replace("{options}", options)).stores["texts"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ('{ url = "elastic:9200" }', "scheme, a host and a port"),
        ('{ url = "https://me:hunter2@elastic:9200" }', "must not contain a login"),
        ('{ url = ["http://a:9200", "b"] }', "scheme, a host and a port"),
        ("{ analyser = { analyzer = { english = {} } } }", "an analyser named chorale"),
        ('{ analyser = { analyzer = { chorale = "standard" } } }', "an analyser named chorale"),
        ("{ analyser = { analyzer = { chorale = {} } } }", "an analyser named chorale"),
        ('{ analyser = { analyzer = "chorale" } }', "an analyser named chorale"),
        ('{ username = "me" }', "both username and password_env"),
        ('{ username = "me", password_env = "P", api_key_env = "K" }', "not both"),
        ('{ ca_file = "ca.pem" }', "https://"),
        ('{ url = "https://a:9200", client_key_file = "key.pem" }', "needs a client_cert_file"),
        ("{ speed = 1 }", "there are: "),
    ],
)
def test_a_wrong_option_is_named_with_its_line(tmp_path: Path, options: str, complaint: str) -> None:
    with pytest.raises(WrongDeclaration, match=complaint) as raised:
        declared(tmp_path, options)
    assert "pipeline.toml:4: stores.texts.options" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_certificates_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    store = declared(tmp_path, f'{{ url = "https://elastic:9200", ca_file = "{tmp_path}/none.pem" }}')
    with pytest.raises(NotConfigured, match=r"none\.pem"):
        open_elasticsearch(store.name, store.options)
