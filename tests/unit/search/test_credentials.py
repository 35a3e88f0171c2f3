"""Keys from the environment, as they are sent in a header."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import NotConfigured
from search.credentials import usable_key
from search.kinds import (
    open_elasticsearch,
    open_http_source,
    open_opensearch,
    open_postgresql,
    open_weaviate,
)

ENDPOINT: dict[str, Any] = {"url": "http://a/", "params": {"q": "{question}"}, "id": "id"}
TEXTS = {
    "kind": "mongodb",
    "url_env": "OUR_KEY",
    "database": "farm",
    "collection": "chunks",
    "text": "content",
}
OPENED: dict[str, tuple[Any, dict[str, Any]]] = {
    "elasticsearch": (open_elasticsearch, {"api_key_env": "OUR_KEY"}),
    "elasticsearch with a password": (open_elasticsearch, {"username": "me", "password_env": "OUR_KEY"}),
    "http": (open_http_source, {**ENDPOINT, "api_key_env": "OUR_KEY"}),
    "http with texts in MongoDB": (open_http_source, {**ENDPOINT, "texts": TEXTS}),
    "opensearch": (open_opensearch, {"username": "me", "password_env": "OUR_KEY"}),
    "postgresql": (open_postgresql, {"url_env": "OUR_KEY"}),
    "weaviate": (open_weaviate, {"api_key_env": "OUR_KEY"}),
}


@pytest.mark.parametrize("kind", OPENED)
@pytest.mark.parametrize(
    "key", [None, " \n", "sesame\n4711", "sesame ☃ 4711", "sesame\x7f4711", "sesame\udcff4711"]
)
def test_a_missing_or_invalid_key_is_named_by_its_variable_and_never_shown(
    kind: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, options = OPENED[kind]
    if key is not None:
        monkeypatch.setenv("OUR_KEY", key)
    with pytest.raises(NotConfigured, match=r"'cluster'.* OUR_KEY ") as raised:
        opened("cluster", options)
    assert "sesame" not in repr(raised.value)


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("http with texts in MongoDB", "mongodb://farm:se@cret@host"),
        ("http with texts in MongoDB", "postgresql://farm:secret@host"),
        ("http with texts in MongoDB", "mongodb://farm:se\ncret@host"),
        ("postgresql", "postgresql://farm:se\ncret@host/name"),
        ("postgresql", "no address"),
        ("postgresql", "mysql://farm:secret@host/name"),
        ("postgresql", "postgresql://farm:secret@host:54x/name"),
        ("postgresql", "postgresql://farm:se@2/cret@host/name"),
        ("postgresql", "postgresql+psycopg://farm:se@2?cret@host/name"),
    ],
)
def test_a_wrong_address_is_named_by_its_variable_and_never_shown(
    kind: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, options = OPENED[kind]
    monkeypatch.setenv("OUR_KEY", address)
    with pytest.raises(
        NotConfigured, match=r"'cluster': the variable OUR_KEY has no valid address"
    ) as raised:
        opened("cluster", options)
    assert "cret" not in f"{raised.value!r}{raised.value.__cause__!r}"


def test_a_password_in_an_address_may_have_any_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", " postgresql://farm:gläser@host/name\n")
    open_postgresql("cluster", {"url_env": "OUR_KEY"}).close()


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("http with texts in MongoDB", "mongodb://USER:PASSWORD@HOST"),
        ("postgresql", "postgresql://USER:PASSWORD@HOST/DATABASE"),
    ],
)
def test_the_error_for_a_missing_address_shows_its_form(
    kind: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUR_KEY", raising=False)
    opened, options = OPENED[kind]
    with pytest.raises(NotConfigured) as raised:
        opened("cluster", options)
    assert raised.value.detail == (
        f"the store 'cluster' needs an address: the variable OUR_KEY is not set; it is {form}"
    )


def test_a_key_from_a_file_is_sent_without_its_newline() -> None:
    assert usable_key("the store 'cluster'", "OUR_KEY", "sesame 4711\r\n") == "sesame 4711"
