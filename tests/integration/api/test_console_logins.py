"""The console's login: sessions, their cookie, and the pages that the scopes of a key open."""

from __future__ import annotations

import re

import httpx

from records.keys.key_store import KeyStore, parts_of
from tests.integration.api.visitors import PAGES, log_in, token_of, visitor
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


def test_without_a_login_every_page_leads_to_the_login_and_shows_nothing_else(api: HttpApi) -> None:
    with httpx.Client(base_url=api.origin, timeout=60) as browser:
        for page in PAGES:
            answer = browser.get(f"/console/{page}?status=x")
            assert (answer.status_code, answer.text) == (303, "")
            assert answer.headers["location"] == f"/console/login?next=%2Fconsole%2F{page}%3Fstatus%3Dx"
            assert browser.get(f"/console/{page}.json").status_code == 401
        assert browser.get("/", follow_redirects=True).url.path == "/console/login"


def test_a_login_leads_to_the_page_that_was_asked_for_and_never_to_another_site(api: HttpApi) -> None:
    key = api.key()
    with httpx.Client(base_url=api.origin, timeout=60) as browser:
        for target, place in {
            "/console/jobs?after=x": "/console/jobs?after=x",
            "https://elsewhere.example/console/": "/console/search",
            "//elsewhere.example": "/console/search",
            "/v1/audit": "/console/search",
        }.items():
            assert log_in(browser, key, next=target).headers["location"] == place


def test_a_wrong_key_gets_the_login_again_and_no_cookie(api: HttpApi) -> None:
    with httpx.Client(base_url=api.origin, timeout=60) as browser:
        answer = log_in(browser, "chorale_wrong")
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
        assert "This is not a valid key." in answer.text
        assert "chorale_wrong" not in answer.text


def test_the_cookie_is_a_random_id_that_no_script_and_no_other_site_can_use(api: HttpApi) -> None:
    key = api.key()
    with httpx.Client(base_url=api.origin, timeout=60) as browser:
        cookie = log_in(browser, key).headers["set-cookie"]
        again = log_in(browser, key).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= set(cookie.split("; "))
    assert cookie.split(";")[0] != again.split(";")[0]
    parts = parts_of(key)
    assert parts is not None
    assert not any(part in cookie for part in parts)
    with api.redis() as redis:
        for name in redis.scan_iter("chorale:session:*"):
            # Whoever reads Redis can take over no session: the cookie's text stands nowhere.
            assert cookie.partition("=")[2].partition(";")[0].encode() not in name + (redis.get(name) or b"")
            assert 0 < redis.ttl(name) <= 8 * 3_600


def test_a_session_ends_with_its_key_and_by_logging_out(api: HttpApi) -> None:
    key = api.key()
    with (
        httpx.Client(base_url=api.origin, timeout=60) as browser,
        httpx.Client(base_url=api.origin, timeout=60) as other,
    ):
        log_in(browser, key)
        log_in(other, key)
        cookies = dict(other.cookies)
        assert other.post("/console/logout", data={"token": token_of(other)}).status_code == 303
        # Nobody can go on with the cookie that the browser has forgotten.
        assert httpx.get(f"{api.origin}/console/corpus", cookies=cookies, timeout=60).status_code == 303
        assert browser.get("/console/corpus").status_code == 200
        store = KeyStore(api.settings.audit_database_url)
        parts = parts_of(key)
        assert parts is not None
        store.revoke(parts[0])
        store.close()

        def is_over() -> bool:
            return browser.get("/console/corpus").status_code == 303

        until(is_over, 30)


def test_a_form_of_another_site_or_without_the_session_s_token_does_nothing(operator: httpx.Client) -> None:
    foreign = operator.post(
        "/console/logout", data={"token": token_of(operator)}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert foreign.status_code == 403
    assert operator.post("/console/logout", data={"token": "guessed"}).status_code == 403
    assert operator.get("/console/corpus").status_code == 200


def test_a_key_sees_only_the_pages_that_its_scopes_allow(api: HttpApi) -> None:
    with visitor(api, scopes=frozenset({"search:run"})) as browser:
        page = browser.get("/console/search").text
        assert re.findall(r'<a href="/console/(\w+)"', page) == ["search", "corpus"]
        assert browser.get("/console/requests").status_code == 403
        assert browser.get("/console/jobs.json").json()["code"] == "forbidden"
    with visitor(api, namespaces=frozenset({"default"})) as admin_of_one:
        # An admin of some namespaces is not the operator, whose page shows the load of every tenant.
        assert admin_of_one.get("/console/health").status_code == 403
