"""The corpus in the console: what a namespace holds, a document as it was split, and files that become documents."""

from __future__ import annotations

import json
import socket
from select import select
from typing import Any

import httpx
import pytest

from api.services import UPLOADS_OF_A_KEY
from tests.integration.api.visitors import MARKUP, NOT_OPERATORS, token_of, visitor
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

WRITER = frozenset({"search:run", "documents:write"})


def upload(browser: httpx.Client, namespace: str, *files: tuple[str, str], **fields: str) -> httpx.Response:
    form = {"token": token_of(browser), "namespace": namespace, **fields}
    return browser.post("/console/upload", data=form, files=[("file", file) for file in files])


def indexed(browser: httpx.Client, address: str) -> dict[str, Any]:
    """The outcome of the ticket at this address."""
    path, question, query = address.partition("?")

    def ended_ticket() -> dict[str, Any] | None:
        ticket: dict[str, Any] = browser.get(f"{path}.json{question}{query}").json()
        return ticket if ticket["state"] != "waiting" else None

    ticket = until(ended_ticket, 60)
    assert ticket is not None
    return ticket


def test_a_namespace_is_shown_with_how_it_was_built_its_documents_and_rules(
    api: HttpApi, api_pipeline: RunningPipeline
) -> None:
    api_pipeline.index(namespace="shown", year=2026)
    with visitor(api) as browser, api.client() as client:
        rules = {"pin": {"bakery": {"contains": ["baking"], "documents": ["deposit"]}}}
        assert client.put("/v1/namespaces/shown/rules", json=rules).status_code == 200
        page = browser.get("/console/corpus/shown.json").json()
        assert [document["document_id"] for document in page["documents"]] == [
            "bread", "deposit", "error", "notice", "repairs",
        ]  # fmt: skip
        assert (page["documents"][0]["passages"], page["next"]) == (1, None)
        assert (page["manifest"]["language"], page["manifest"]["encoder"]) == ("en", "default")
        assert page["rules"]["rules"]["pin"]["bakery"]["documents"] == ["deposit"]
        html = browser.get("/console/corpus/shown").text
        assert "contains: baking" in html
        assert 'href="/console/corpus/shown/document?id=bread"' in html
        address = "/console/corpus/shown/document.json"
        document = browser.get(address, params={"id": "bread"}).json()["document"]
        assert (document["title"], document["metadata"]) == ("Bread", {"year": 2026})
        text = "Bread is baked from flour, water, salt and a little patience."
        assert [passage["text"] for passage in document["passages"]] == [text]
        for path in ("corpus/nowhere", "corpus/shown/document?id=none", "corpus/shown/document?id=a%00"):
            assert browser.get(f"/console/{path}").status_code == 404


def test_a_key_sees_of_a_namespace_what_a_search_may_find_with_it(
    api: HttpApi, api_pipeline: RunningPipeline
) -> None:
    for name in ("red", "blue"):
        api_pipeline.index({name: ("", f"the {name} of a shop")}, namespace="shops", shop=name)
    narrow = {"scopes": frozenset({"search:run", "audit:read"}), "filters": {"shop": "red"}}
    with visitor(api, "red-shop", **narrow) as red:
        page = red.get("/console/corpus/shops.json").json()
        assert [document["document_id"] for document in page["documents"]] == ["red"]
        assert (page["namespace"]["documents"], page["manifest"], page["rules"]) == (None, None, None)
        assert red.get("/console/corpus/shops/document?id=red").status_code == 200
        assert red.get("/console/corpus/shops/document?id=blue").status_code == 404
    elsewhere = {"namespaces": frozenset({"default"}), "scopes": NOT_OPERATORS}
    with visitor(api, "red-shop", **elsewhere) as other:
        for path in ("corpus/shops", "corpus/shops/document?id=red", "corpus/shops.json"):
            assert other.get(f"/console/{path}").status_code == 404
        assert upload(other, "shops", ("a.txt", "a text")).status_code == 404
    with visitor(api, "shop", scopes=frozenset({"search:read"})) as reader:
        assert reader.get("/console/corpus/shops.json").json()["documents"] is None
        assert reader.get("/console/corpus/shops/document?id=red").status_code == 403


def test_uploaded_files_become_documents_shown_as_text_and_what_cannot_be_read_is_named(api: HttpApi) -> None:
    line = {"id": MARKUP, "title": MARKUP, "text": MARKUP, "metadata": {MARKUP: MARKUP, "list": [MARKUP]}}
    files = (
        ("oven.md", "# Oven\n\nAn oven bakes bread."),
        ("oven.html", "<title>Stove</title><p>A stove cooks."),
        (f"{MARKUP.replace('/', '')}.jsonl", json.dumps(line)),
        ("<b>.x", "x"),
    )
    with visitor(api, "uploader", scopes=WRITER) as browser, visitor(api, "other", scopes=WRITER) as other:
        answer = upload(browser, "kitchen", *files)
        assert answer.status_code == 303, answer.text
        address = answer.headers["location"]
        ticket = indexed(browser, address)
        assert (ticket["state"], ticket["outcome"]["added"]) == ("done", 3)
        assert ticket["left_out"].startswith("<b>.x: no reader for .x")
        document = "/console/corpus/kitchen/document"
        oven = browser.get(f"{document}.json", params={"id": "upload/oven.md"}).json()["document"]
        assert (oven["title"], "An oven bakes bread." in oven["passages"][0]["text"]) == ("Oven", True)
        assert other.get(address).status_code == 404
        pages = [
            browser.get("/console/corpus/kitchen"),
            browser.get(document, params={"id": MARKUP}),
            browser.get(address),
            browser.get("/console/upload", params={"namespace": MARKUP}),
        ]
    for page in pages:
        assert page.status_code == 200
        assert not any(markup in page.text for markup in ("<script>alert", "<b onclick", "<b>.x"))
    assert "&lt;script&gt;alert(1)" in pages[1].text
    with visitor(api) as operator:
        change = operator.get("/console/keys.json").json()["changes"][0]
        assert (change["action"], change["subject"]) == ("upload documents", "kitchen")


def begin(browser: httpx.Client) -> socket.socket:
    """An upload that has begun and does not end."""
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    head = (
        f"POST /console/upload HTTP/1.1\r\nHost: api\r\nCookie: {cookies}\r\nContent-Length: 100000\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
    )
    caller = socket.create_connection((browser.base_url.host, browser.base_url.port or 80), timeout=30)
    caller.sendall(head.encode())
    return caller


def test_one_key_has_as_many_uploads_at_once_in_the_console_as_over_http(api: HttpApi) -> None:
    with visitor(api, "hurried", scopes=WRITER) as browser:
        slow = [begin(browser) for _ in range(UPLOADS_OF_A_KEY + 1)]
        try:
            # The one upload too many is answered, with a refusal, once the others have their places.
            until(lambda: select(slow, [], [], 0)[0])
            refused = upload(browser, "kitchen", ("a.txt", "a text"))
            assert (refused.status_code, "4 uploads of this key are being read" in refused.text) == (
                429,
                True,
            )
            with visitor(api, "patient", scopes=WRITER) as other:
                assert upload(other, "garden", ("a.txt", "a text")).status_code == 303
        finally:
            for caller in slow:
                caller.close()
        until(lambda: upload(browser, "kitchen", ("a.txt", "a text")).status_code == 303)


def test_an_upload_in_the_console_of_which_nothing_comes_is_given_up(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.upload_limits.SILENT_S", 0.2)
    with visitor(api, "silent", scopes=WRITER) as browser, begin(browser) as caller:
        response = caller.recv(100_000)
        while b"nothing of the body arrived" not in response:
            response += caller.recv(100_000) or pytest.fail(response.decode())
        assert response.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("files", "detail"),
    [
        ((), "file: choose at least one"),
        ((("empty.md", ""),), "file: nothing can be read. empty.md: empty"),
        ((("..", "x"),), "file: no file can have the name"),
        ((("a/x.md", "one"), ("b/x.md", "two")), "file: several files have the name &#39;x.md&#39;"),
    ],
)
def test_an_upload_of_which_nothing_can_be_read_says_why(
    api: HttpApi, files: tuple[tuple[str, str], ...], detail: str
) -> None:
    with visitor(api) as browser:
        answer = upload(browser, "kitchen", *files)
        assert (answer.status_code, detail in answer.text) == (422, True), answer.text


def test_an_upload_needs_the_scope_the_session_s_token_and_a_size_that_is_allowed(api: HttpApi) -> None:
    with visitor(api, scopes=frozenset({"search:run"})) as browser:
        assert upload(browser, "kitchen", ("a.txt", "a text")).status_code == 403
        assert "/console/upload" not in browser.get("/console/corpus").text
    with visitor(api) as operator:
        assert upload(operator, "kitchen", ("a.txt", "a text"), token="guessed").status_code == 403
        assert upload(operator, "kitchen", ("a.txt", "x" * 34_000_000)).status_code == 413
        # Other forms take no files, however small.
        form = {"token": token_of(operator)}
        assert operator.post("/console/jobs", data=form, files={"file": ("a", "b")}).status_code == 400
