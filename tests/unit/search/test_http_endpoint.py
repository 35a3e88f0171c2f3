"""How a JSON search endpoint and the fields of its answers are declared."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from models.declarations.sources import HttpEndpoint
from search.engines.http.answer import at

TEXTS = {
    "kind": "mongodb",
    "url_env": "OUR_URL",
    "database": "farm",
    "collection": "chunks",
    "text": "content",
}


DOCUMENT: dict[str, Any] = {"a": {"b": 1}, "a.b": {"c": 2}, "l": [{"x": "first"}, {"x": "second"}, None]}
DOCUMENT |= {"g": [{"hits": [{"x": 1}, {"x": [2, 3]}]}, {"hits": []}]}


@pytest.mark.parametrize(
    ("path", "stands"),
    [
        ("a.b", 1),
        ("$.a.b", 1),
        ("l.1.x", "second"),
        (["a.b", "c"], 2),
        (["l", 0, "x"], "first"),
        ("a.b.c", None),
        ("l.9.x", None),
        ("l.-1", None),
        ("l.x", ["first", "second"]),
        ("l.y", None),
        ("g.hits.x", [1, 2, 3]),
        ("$", DOCUMENT),
        (None, None),
    ],
)
def test_a_path_follows_objects_and_lists(path: Any, stands: object) -> None:
    assert at(DOCUMENT, path) == stands


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "ftp://a/"}, "begins with http"),
        ({"url": "http://user:pw@a/"}, "must not contain a login"),
        ({"url": "http://a:port/"}, "Port could not be cast"),
        ({"url": "http://{question}/"}, "no braces in the host"),
        ({"url": "http://a/{key}"}, "not into the address"),
        ({"params": {"q": "rent"}}, "must contain {question}"),
        ({"params": {"q": "{question}", "k": "{key}"}}, "{key} needs api_key_env"),
        ({"body": {"q": "{question}"}}, 'a body needs method = "POST"'),
        ({"filter_dialect": "pinecone"}, "filter_dialect and filter_fields need {filter} in the body"),
        ({"filter_indexes": {"a": "bool"}}, 'filter_indexes need filter_dialect = "qdrant"'),
        ({"headers": {"Authorization": "Bearer x"}}, "put a secret into the variable of api_key_env"),
        ({"headers": {"X": "a\r\nb"}}, "is not a header of plain ASCII"),
        ({"params": {"q": "{question}", "w": "{filter}"}}, "params.w: put {filter} into the body; there are"),
        ({"url": "http://a/{vector}"}, "url: put {vector} into the params or body"),
        (
            {"params": {"q": "{questoin}"}},
            "params.q: no placeholder {questoin} ({ questoin }, with spaces, keeps the braces); "
            "there are: {question}, {vector}, {depth}, {namespace}, {key}",
        ),
        (
            {"method": "POST", "body": {"q": "{question}", "knn": [{"of": "x: {vectr}"}]}},
            "body.knn.0.of: no placeholder {vectr} ({ vectr }, with spaces, keeps the braces); "
            "there are: {question}, {vector}, {depth}, {namespace}, {key}, {filter}",
        ),
        ({"params": {"q": "{question}", "v": "{vector}"}}, "and not both"),
        ({"headers": {"X-Of": "{key}"}}, "headers.X-Of: put {key} into the params or body; there are: none"),
        ({"key_prefix": "Bearer\n"}, "key_prefix"),
        ({"texts": TEXTS, "text": "text"}, "either text, a field of the hits, or texts"),
        (
            {"texts": {**TEXTS, "url_env": "mongodb://user:pw@host"}},
            "the name of an environment variable, never",
        ),
    ],
)
def test_a_wrong_declaration_is_one_sentence(options: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"url": "http://a/", "params": {"q": "{question}"}, "id": "id"}
    assert HttpEndpoint(**right).address == "http://a/"
    with pytest.raises(ValidationError) as raised:
        HttpEndpoint(**{**right, **options})
    assert words in str(raised.value)
    assert "pw@" not in str(raised.value)


@pytest.mark.parametrize("text", ["{ id }", "{search{id}}", "[0-9]{3}", "MATCH (n {id: $id})"])
def test_braces_that_are_no_placeholder_stay(text: str) -> None:
    endpoint = HttpEndpoint(url="http://a/", params={"q": "{question}", "text": text}, id="id")
    assert endpoint.places == {"question"}
