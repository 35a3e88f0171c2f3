"""An endpoint that is gone, silent, broken or foreign: one sentence, in time, without the key."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from models.errors import (
    BadIndex,
    InvalidAnswer,
    NotConfigured,
    StageFailure,
    StoreTimeout,
    StoreUnavailable,
    Unauthorised,
)
from search.protocol import Search
from tests.contracts.outside_service import SECRET, Ask, OutsideServiceContract
from tests.support.servers.certificates import Certificate
from tests.support.servers.search_server import (
    Answer,
    SearchServer,
    cuts_off,
    drips,
    hangs_up,
    says,
    sends,
    sleeps,
    writes,
)
from tests.support.stores.wiki_source import PAGES, Opens, connections_to, found, ids
from tests.support.waiting import until

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
FAILURES: dict[str, tuple[Answer, type[StageFailure], str]] = {
    "401": (sends(401), Unauthorised, "answers 401: check the key that api_key_env names"),
    "403": (sends(403), Unauthorised, "answers 403"),
    "404": (sends(404), BadIndex, "answers 404: check the url, params and body"),
    "429": (sends(429, retry_after="7"), StoreUnavailable, "too many requests (retry-after: 7)"),
    "500": (sends(500, b"<html>boom</html>"), StoreUnavailable, "answers 500"),
    "504": (sends(504), StoreTimeout, "answers 504"),
    "a number that is no status": (sends(600), InvalidAnswer, "not a valid HTTP status"),
    "nothing": (sends(200), InvalidAnswer, "does not answer with JSON"),
    "no list": (says({"items": {"a": 1}}), InvalidAnswer, "no list of hits at 'items', but an object"),
    "no such field": (says({"hits": []}), InvalidAnswer, "no list of hits at 'items', but nothing"),
    "no id at all": (
        says({"items": [{"pk": 1}]}),
        InvalidAnswer,
        "none of 1 hits has a text or whole number",
    ),
    "a huge answer": (sends(200, b" " * 60_000), InvalidAnswer, "more than 50,000 bytes"),
    "a compressed one": (sends(200, b"xx", content_encoding="gzip"), InvalidAnswer, "compressed"),
    "cut off": (cuts_off(b'{"items": []}', after=5), InvalidAnswer, "is cut off, or no valid HTTP"),
    "a broken chunk": (writes(CHUNKED + b"5\r\n[1"), InvalidAnswer, "is cut off, or no valid HTTP"),
    "a chunk of less than nothing": (
        writes(CHUNKED + b"-5\r\n{}"),
        InvalidAnswer,
        "is cut off, or no valid HTTP",
    ),
    "hung up": (hangs_up, StoreUnavailable, "closed the connection"),
    "silence": (sleeps(20), StoreTimeout, "did not answer within 0.3 s"),
}


class TestSources(OutsideServiceContract):
    RIGHT = b'{"items": [{"id": 1}]}'
    WRONG: ClassVar = {
        "NaN": b'{"items": [{"id": NaN}]}',
        "infinite": b'{"items": [{"id": 1, "rank": Infinity}]}',
        "another length": b'{"items": {}}',
    }

    @pytest.fixture
    def ask(self, opens: Opens) -> Ask:
        def ask(origin: str, timeout_s: float) -> object:
            # Its address may have no login and no key.
            places = {"params": {"q": "{question}", "key": "{key}"}, "api_key_env": "WIKI_KEY", "key": SECRET}
            return found(opens(url=f"{origin}/search", **places), timeout_s=timeout_s)

        return ask


@pytest.mark.parametrize(("answer", "failure", "words"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_one_sentence_and_comes_in_time(
    server: SearchServer, opens: Opens, answer: Answer, failure: type[StageFailure], words: str
) -> None:
    ended = threading.Event()

    def answer_and_note_the_end(handler: Any) -> None:
        answer(handler)
        ended.set()

    server.answer = answer_and_note_the_end
    source = opens(
        max_bytes=50_000, api_key_env="WIKI_KEY", key=SECRET, params={"q": "{question}", "k": "{key}"}
    )
    never_ends = words.startswith("did not answer")
    with pytest.raises(failure) as raised:
        found(source, timeout_s=0.3 if never_ends else 20.0)
    assert not (never_ends and ended.is_set()), "the search waited for the endpoint"
    assert words in str(raised.value)
    assert server.url in str(raised.value), "which one"
    assert SECRET not in f"{raised.value!r}{raised.value.__cause__!r}{raised.value.__context__!r}"
    source.close()
    # The failure, and with it what was read of the answer, is still referenced here.
    until(lambda: not connections_to(urlsplit(server.url).port))


def test_after_a_failure_the_next_question_is_answered(server: SearchServer, opens: Opens) -> None:
    source = opens(connections=1)
    server.answer = drips(200, 0.05, headers=True)
    with pytest.raises(StoreTimeout):
        found(source, timeout_s=0.2)
    server.answer = says({"items": PAGES})
    assert ids(found(source, timeout_s=20)) == ["wiki/7", "wiki/keys"], "its only connection is free again"


def test_one_failing_question_fails_the_branch_at_once(server: SearchServer, opens: Opens) -> None:
    failed = threading.Event()

    def answer(handler: Any) -> None:
        if "bad" in handler.path:
            sends(401)(handler)
        else:
            failed.wait(60)

    server.answer = answer
    with pytest.raises(Unauthorised):
        opens().search_text("ns", ["good", "bad"], Search(depth=5, timeout_s=50))
    failed.set()


@pytest.mark.parametrize(
    ("options", "failure", "words"),
    [
        ({"timeout_s": 0.2}, StoreTimeout, r"within 0\.2 s"),
        ({"url": "http://127.0.0.1:1/search"}, StoreUnavailable, "refused"),
        ({"url": "https://127.0.0.1:{port}/search"}, StoreUnavailable, "cannot be reached"),
        (
            {"url": "https://127.0.0.1:1/", "ca_file": "/nowhere.pem"},
            NotConfigured,
            r"nowhere\.pem .*: No such file",
        ),
    ],
    ids=["the endpoint's own timeout", "no server", "a server without TLS", "no certificates"],
)
def test_a_declaration_that_the_server_does_not_meet_is_one_sentence(
    server: SearchServer, opens: Opens, options: dict[str, Any], failure: type[StageFailure], words: str
) -> None:
    server.answer = sleeps(5)
    if "url" in options:
        options = {**options, "url": options["url"].replace("{port}", str(urlsplit(server.url).port))}
    with pytest.raises(failure, match=words):
        found(opens(**options))


def test_a_certificate_is_checked(opens: Opens, tmp_path: Path) -> None:
    certificate = Certificate.make(tmp_path)
    with SearchServer(certificate) as server:
        server.answer = says({"items": PAGES})
        assert ids(found(opens(url=server.url, ca_file=str(certificate.file)))) == ["wiki/7", "wiki/keys"]
        with pytest.raises(StoreUnavailable, match=r"cannot be reached: .*certificate verify failed"):
            found(opens(url=server.url))


@pytest.mark.parametrize("key", [None, " ", "two\nlines", "snowman ☃"])
def test_a_missing_or_invalid_key_is_named_by_its_variable(opens: Opens, key: str | None) -> None:
    with pytest.raises(NotConfigured, match="the variable WIKI_KEY") as raised:
        found(opens(api_key_env="WIKI_KEY", key=key))
    assert not key or key.strip() == "" or key not in str(raised.value)
