"""An endpoint that is gone, silent, broken or foreign: one sentence, in time, without the key."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from models import errors
from search.protocol import Search
from tests.contracts.outside_service import SECRET, Ask, OutsideServiceContract
from tests.support.servers.certificates import Certificate
from tests.support.servers.search_server import Answer, SearchServer, cuts_off, hangs_up, says, sends, sleeps
from tests.support.stores.wiki_source import PAGES, Opens, ids, ranking_of


class TestSources(OutsideServiceContract):
    RIGHT = b'{"items": [{"id": 1}]}'
    WRONG: ClassVar = {
        "NaN": b'{"items": [{"id": NaN}]}',
        "infinite": b'{"items": [{"id": 1, "rank": Infinity}]}',
        "a huge integer": b'{"items": [{"id": 1%s}]}' % (b"0" * 400),
        "another length": b'{"items": {}}',
    }

    @pytest.fixture
    def ask(self, opens: Opens) -> Ask:
        def ask(origin: str, timeout_s: float) -> object:
            # Its address may have no login and no key.
            places = {"params": {"q": "{question}", "key": "{key}"}, "api_key_env": "WIKI_KEY", "key": SECRET}
            return ranking_of(opens(url=f"{origin}/search", **places), timeout_s=timeout_s)

        return ask


FAILURES: dict[str, tuple[Answer, type[errors.StageFailure], str]] = {
    "401": (sends(401), errors.Unauthorised, "answers 401: the store declares no api_key_env"),
    "403": (sends(403), errors.Unauthorised, "answers 403: the store declares no api_key_env"),
    "404": (sends(404), errors.BadIndex, "answers 404: check the url, params and body"),
    "429": (sends(429, retry_after="7"), errors.StoreUnavailable, "too many requests (retry-after: 7)"),
    "500": (sends(500, b"<html>boom</html>"), errors.StoreUnavailable, "answers 500"),
    "504": (sends(504), errors.StoreTimeout, "answers 504"),
    "a number that is no status": (sends(600), errors.InvalidAnswer, "not a valid HTTP status"),
    "no list": (says({"items": {"a": 1}}), errors.InvalidAnswer, "no list of hits at 'items', but another"),
    "no such field": (says({"hits": []}), errors.InvalidAnswer, "no list of hits at 'items', but nothing"),
    "no id": (says({"items": [{"pk": 1}]}), errors.InvalidAnswer, "none of 1 hits has a text or whole"),
    "cut off": (cuts_off(b'{"items": []}', after=5), errors.StoreUnavailable, "closed the connection"),
    "hung up": (hangs_up, errors.StoreUnavailable, "closed the connection"),
    "silence": (sleeps(5), errors.StoreTimeout, "did not answer within 0.3 s"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_is_one_sentence_with_the_address(server: SearchServer, opens: Opens, what: str) -> None:
    server.answer, failure, words = FAILURES[what]
    with pytest.raises(failure) as raised:
        ranking_of(opens(timeout_s=0.3 if what == "silence" else 20))
    assert words in str(raised.value)
    assert server.url in str(raised.value)


def test_a_refusal_ends_with_the_endpoint_s_own_sentence_without_a_key_and_what_a_key_forces(
    server: SearchServer, opens: Opens
) -> None:
    source = opens(error="status.error", api_key_env="WIKI_KEY", key=SECRET)
    sentence = b'{"status": {"error": "No index of \\"owner\\" for %s."}}' % SECRET.encode()
    for answer, forced, end in (
        (sends(400, sentence), (), 'that the store declares (No index of "owner" for ….)'),
        (sends(400, sentence.replace(b"No", b"x" * 277)), (), f'({"x" * 277} index of "owner" for …)'),
        (sends(422, sentence[:-1]), (), "that the store declares"),
        (sends(404, b'{"status": "error"}'), (), "that the store declares"),
        (sends(400, sentence), ("owner",), "that the store declares"),
        (sends(403, sentence), (), "check the key that api_key_env names"),
        (sends(429, sentence), (), '(retry-after: not said) (No index of "owner" for ….)'),
        (sends(302, sentence), (), "declare the address that it redirects to"),
        (sends(500, sentence), (), "see the log of that server"),
    ):
        server.answer = answer
        with pytest.raises(errors.StageFailure) as raised:
            ranking_of(source, filters={"owner": "acme"}, forced_fields=forced)
        assert str(raised.value).endswith(end), raised.value


@pytest.mark.parametrize(
    ("options", "failure", "words"),
    [
        ({"url": "http://127.0.0.1:1/search"}, errors.StoreUnavailable, "refused"),
        ({"url": "https://127.0.0.1:{port}/search"}, errors.StoreUnavailable, "cannot be reached"),
        ({"url": "https://a/", "ca_file": "/no.pem"}, errors.NotConfigured, r"no\.pem .*: No such file"),
    ],
    ids=["no server", "a server without TLS", "no certificates"],
)
def test_a_declaration_that_the_server_does_not_meet_is_one_sentence(
    server: SearchServer, opens: Opens, options: dict[str, Any], failure: type[Exception], words: str
) -> None:
    url = options["url"].replace("{port}", str(urlsplit(server.url).port))
    with pytest.raises(failure, match=words):
        ranking_of(opens(**{**options, "url": url}))


def test_a_question_too_long_for_an_address_is_one_sentence(opens: Opens) -> None:
    with pytest.raises(errors.NotConfigured, match="URL too long: send it in a `body`"):
        ranking_of(opens(), "“" * 8_192)


def test_one_failing_question_ends_the_others_and_the_next_request_is_answered(
    server: SearchServer, opens: Opens
) -> None:
    failed = threading.Event()

    def answer(handler: Any) -> None:
        if "bad" in handler.path:
            sends(401)(handler)
        else:
            failed.wait(60)

    server.answer = answer
    source = opens(connections=2)
    with pytest.raises(errors.Unauthorised):
        source.search_text("ns", ["good", "bad"], Search(depth=5, timeout_s=50))
    failed.set()
    server.answer = says({"items": PAGES})
    assert ids(ranking_of(source)) == ["wiki/7", "wiki/keys"]


def test_a_certificate_is_checked(opens: Opens, tmp_path: Path) -> None:
    certificate = Certificate.make(tmp_path)
    with SearchServer(certificate) as server:
        server.answer = says({"items": PAGES})
        assert ids(ranking_of(opens(url=server.url, ca_file=str(certificate.file)))) == [
            "wiki/7",
            "wiki/keys",
        ]
        with pytest.raises(errors.StoreUnavailable, match=r"cannot be reached: .*certificate verify failed"):
            ranking_of(opens(url=server.url))
