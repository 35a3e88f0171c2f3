"""The console's login: sessions, their cookie, and the pages that the scopes of a key open."""

from __future__ import annotations

import re

import httpx
from sqlalchemy import select

from models.tables.installation import session_table
from records.database import open_database
from tests.integration.api.visitors import PAGES, log_in, token_of, visitor
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


def test_without_a_login_every_page_leads_to_the_login_and_shows_nothing_else(api: HttpApi) -> None:
    with api.stranger() as browser:
        for page in PAGES:
            answer = browser.get(f"/console/{page}?status=x")
            assert (answer.status_code, answer.text) == (303, "")
            assert answer.headers["location"] == f"/console/login?next=%2Fconsole%2F{page}%3Fstatus%3Dx"
            assert browser.get(f"/console/{page}.json").status_code == 401
        assert browser.get("/", follow_redirects=True).url.path == "/console/login"


def test_a_login_leads_to_the_page_that_was_asked_for_and_never_to_another_site(api: HttpApi) -> None:
    key = api.key()
    with api.stranger() as browser:
        for target, place in {
            "/console/jobs?after=x": "/console/jobs?after=x",
            "https://elsewhere.example/console/": "/console/search",
            "//elsewhere.example": "/console/search",
            "/v1/audit": "/console/search",
        }.items():
            assert log_in(browser, key, next=target).headers["location"] == place


def test_a_wrong_key_gets_the_login_again_and_no_cookie(api: HttpApi) -> None:
    with api.stranger() as browser:
        answer = log_in(browser, "chorale_wrong")
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
        assert "This is not a valid key." in answer.text
        assert "chorale_wrong" not in answer.text


def test_the_cookie_is_a_random_id_that_no_script_and_no_other_site_can_use(api: HttpApi) -> None:
    key = api.key()
    with api.stranger() as browser:
        cookie = log_in(browser, key).headers["set-cookie"]
        again = log_in(browser, key).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= set(cookie.split("; "))
    assert cookie.split(";")[0] != again.split(";")[0]
    assert not any(part in cookie for part in key.split("_", 2)[1:])
    # Whoever reads the database can take over no session: the cookie's text stands nowhere.
    text = cookie.partition("=")[2].partition(";")[0]
    database = open_database(api.settings.audit_database_url)
    with database.connect() as connection:
        rows = [str(row) for row in connection.execute(select(session_table))]
    database.dispose()
    assert rows
    assert not any(text in row for row in rows)


def test_a_session_ends_with_its_key_and_by_logging_out(api: HttpApi) -> None:
    key = api.key()
    with api.stranger() as browser, api.stranger() as other:
        log_in(browser, key)
        log_in(other, key)
        cookies = dict(other.cookies)
        assert other.post("/console/logout", data={"token": token_of(other)}).status_code == 303
        # Nobody can go on with the cookie that the browser has forgotten.
        other.cookies.update(cookies)
        assert other.get("/console/corpus").status_code == 303
        assert browser.get("/console/corpus").status_code == 200
        api.keys.revoke(key.split("_")[1])
        until(lambda: browser.get("/console/corpus").status_code == 303)


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
