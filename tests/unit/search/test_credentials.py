"""Keys from the environment, as they are sent in a header."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import NotConfigured
from search.kinds import open_elasticsearch, open_opensearch, open_weaviate

OPENED: dict[str, tuple[Any, dict[str, str]]] = {
    "elasticsearch": (open_elasticsearch, {"api_key_env": "OUR_KEY"}),
    "elasticsearch with a password": (open_elasticsearch, {"username": "me", "password_env": "OUR_KEY"}),
    "opensearch": (open_opensearch, {"username": "me", "password_env": "OUR_KEY"}),
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
