"""What can be done in the console: jobs are paused, resumed and cancelled, keys are revoked, and who did it is kept."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import httpx
import pytest

from console import keys
from console.jobs import actions_of
from tests.integration.api.test_jobs import submit
from tests.integration.api.visitors import NOT_OPERATORS, token_of, visitor
from tests.support.command_line import in_process
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until


def job_of(browser: httpx.Client, job_id: str) -> dict[str, Any]:
    listed = browser.get("/console/jobs.json").json()["jobs"]
    job: dict[str, Any] = next(job for job in listed if job["job_id"] == job_id)
    return job


def act(browser: httpx.Client, action: str, job_id: str, **fields: str) -> httpx.Response:
    form = {"token": token_of(browser), "action": action, "job": job_id, **fields}
    return browser.post("/console/jobs", data=form)


def changes_of(browser: httpx.Client) -> list[tuple[str, str]]:
    return [
        (change["action"], change["subject"])
        for change in browser.get("/console/keys.json").json()["changes"]
    ]


def test_a_job_is_paused_resumed_and_cancelled_and_each_change_is_kept_with_the_key_s_name(
    idle_api: HttpApi,
) -> None:
    with visitor(idle_api, "jobs-operator") as browser, idle_api.client("jobs-operator") as client:
        job_id = submit(client, name="bread.jsonl")["job_id"]
        for action, state, buttons in (
            ("pause", "paused", {"resume": "Resume", "cancel": "Cancel"}),
            ("resume", "queued", {"pause": "Pause", "cancel": "Cancel"}),
            ("cancel", "cancelling", {}),
        ):
            answer = act(browser, action, job_id)
            assert (answer.status_code, answer.headers["location"]) == (303, "/console/jobs")
            job = job_of(browser, job_id)
            assert (job["state"], job["actions"]) == (state, buttons)
        page = browser.get("/console/jobs").text
        assert 'name="action"' not in page
        # The ids of one key begin alike: what follows tells them apart.
        assert f"<code>t.jobs-operator.{job_id.rpartition('.')[2][:8]}</code>" in page
        assert changes_of(browser)[:3] == [
            (f"{action} job", job_id) for action in ("cancel", "resume", "pause")
        ]


def test_the_button_says_how_many_lines_a_retry_answers_again() -> None:
    assert actions_of("ended", {"complete": 5, "failed": 1, "expired": 2, "cancelled": 1_000}) == {
        "retry": "Retry 1,003 lines"
    }
    assert actions_of("ended", {"complete": 5, "refused": 2}) == {}


@pytest.mark.parametrize(
    ("action", "status", "detail"),
    [
        ("delete", 422, "action: no &#39;delete&#39;; there are: pause, resume, cancel, retry"),
        ("retry", 409, ""),
    ],
)
def test_an_action_that_the_job_does_not_allow_is_a_page_that_says_why(
    idle_api: HttpApi, action: str, status: int, detail: str
) -> None:
    with visitor(idle_api, "jobs-operator") as browser, idle_api.client("jobs-operator") as client:
        job_id = submit(client)["job_id"]
        answer = act(browser, action, job_id)
        assert answer.status_code == status
        assert detail in answer.text
        act(browser, "cancel", job_id)


def test_nobody_acts_on_another_tenant_s_job_without_the_scope_or_without_the_session_s_token(
    idle_api: HttpApi,
) -> None:
    reader = frozenset({"search:read", "search:run"})
    with (
        idle_api.client("owner") as owner,
        visitor(idle_api, "owner", scopes=reader) as reading,
        visitor(idle_api, "stranger", scopes=NOT_OPERATORS) as stranger,
        visitor(idle_api, "owner", scopes=NOT_OPERATORS) as own,
    ):
        job_id = submit(owner)["job_id"]
        assert job_of(reading, job_id)["actions"] == {}
        assert act(reading, "cancel", job_id).status_code == 403
        assert act(stranger, "cancel", job_id).status_code == 404
        assert act(own, "cancel", job_id, token="guessed").status_code == 403
        assert job_of(own, job_id)["state"] == "queued"
        assert act(own, "cancel", job_id).status_code == 303


def test_the_operator_alone_sees_the_lines_of_each_tenant(idle_api: HttpApi) -> None:
    with (
        idle_api.client("red", weight=2.0) as red,
        idle_api.client("blue") as blue,
        visitor(idle_api, "red", scopes=NOT_OPERATORS) as own,
        visitor(idle_api, "operator") as operator,
    ):
        for client in (red, red, blue):
            submit(client)
        rows = operator.get("/console/jobs.json").json()["shares"]
        lines = {row["tenant"]: (row["weight"], row["waiting"], row["share"]) for row in rows}
        assert (lines["red"], lines["blue"]) == ((2.0, 4, None), (1.0, 2, None))
        for ending in ("", ".json"):
            assert "blue" not in own.get(f"/console/jobs{ending}").text


def test_results_are_downloaded_by_a_key_that_may_read_the_job(api: HttpApi) -> None:
    with (
        api.client("loader") as client,
        visitor(api, "loader", scopes=frozenset({"search:read"})) as reader,
        visitor(api, "stranger") as stranger,
    ):
        job_id = submit(client, name="bread.jsonl")["job_id"]
        address = f"/console/jobs/{job_id}/results"
        lines = reader.get(address)
        assert lines.headers["content-disposition"] == f'attachment; filename="{job_id}.jsonl"'
        assert "default-src 'none'" in lines.headers["content-security-policy"]
        assert lines.content == client.get(f"/v1/jobs/{job_id}/results?format=jsonl").content
        assert reader.get(address, params={"format": "csv"}).headers["content-type"].startswith("text/csv")
        assert f'href="{address}"' in reader.get("/console/jobs").text
        assert stranger.get(address).status_code == 404


def test_the_operator_sees_what_each_key_may_do_and_revokes_one(api: HttpApi) -> None:
    text = api.key(
        "acme-shop", namespaces=frozenset({"default"}), scopes=frozenset({"search:run"}), filters={"lang": "en"},
        max_top_k=20, requests_per_minute=60,
    )  # fmt: skip
    _, key_id, secret = text.split("_", 2)
    with visitor(api) as operator, visitor(api, scopes=NOT_OPERATORS) as other:
        assert other.get("/console/keys").status_code == 403
        page = operator.get("/console/keys.json")
        assert secret not in page.text
        key = next(key for key in page.json()["keys"] if key["key_id"] == key_id)
        assert (key["state"], key["may"]) == (
            "active",
            [
                "search:run in default",
                'only documents that meet {"lang": "en"}',
                "at most 20 hits of a question, 60 calls a minute",
            ],
        )
        form = {"token": token_of(operator), "key": key_id}
        assert other.post("/console/keys", data=form | {"token": token_of(other)}).status_code == 403
        assert operator.post("/console/keys", data=form).status_code == 303
        with api.stranger({"Authorization": f"Bearer {text}"}) as revoked:
            until(lambda: revoked.get("/v1/namespaces").status_code == 401, 30)
        assert changes_of(operator)[0] == ("revoke key", key_id)
        assert operator.post("/console/keys", data=form | {"key": "unknown"}).status_code == 404


def test_keys_are_shown_page_by_page(api: HttpApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "PAGE", 2)
    with visitor(api) as operator:
        made = {api.key("paged").split("_")[1] for _ in range(3)}
        seen, page = list[str](), {"next": None}
        while page["next"] or not seen:
            page = operator.get("/console/keys.json", params={"after": page["next"]} if seen else {}).json()
            assert len(page["keys"]) <= 2
            seen += [key["key_id"] for key in page["keys"]]
        assert made <= {*seen}
        assert len({*seen}) == len(seen)


def test_an_operator_sees_and_steers_the_jobs_of_the_command_line_which_no_other_key_sees(
    idle_api: HttpApi, tmp_path: Path
) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"text": "who bakes bread?"}\n')
    around = {
        "CHORALE_HOME": str(idle_api.settings.home),
        "CHORALE_AUDIT_URL": idle_api.settings.audit_database_url,
    }
    submitted = in_process("jobs", "submit", str(file), **around)
    assert submitted.returncode == 0, submitted.stderr
    job_id = submitted.stdout.strip()
    with (
        visitor(idle_api, "an-operator") as operator,
        visitor(idle_api, "no-operator", namespaces=frozenset({"default"})) as other,
        idle_api.client("a-tenant") as tenant,
    ):
        theirs = submit(tenant)["job_id"]
        listed = {job["job_id"] for job in operator.get("/console/jobs.json").json()["jobs"]}
        assert (job_id in listed, theirs in listed) == (True, False)
        assert other.get("/console/jobs.json").json()["jobs"] == []
        page = html.unescape(other.get("/console/jobs").text)
        assert "chorale keys create -n '*' --scope admin" in page
        assert act(other, "cancel", job_id).status_code == 404
        assert act(operator, "cancel", job_id).status_code == 303
        assert job_of(operator, job_id)["state"] == "cancelling"
