"""What belongs to the tenant `zenith`, with a mark in every text, so that a response to another tenant can be searched for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from tests.support.attacks.routes import JSONL, NAMESPACE
from tests.support.pipelines.pipeline import RunningPipeline
from tests.support.servers.http_api import HttpApi
from tests.support.waiting import until

MARK = "zenithsecret"
THEIR_NAMESPACE = "zenith-docs"
OUR_NAMESPACE = "acme-docs"
THEIR_FIELD = "only_zenith_has_this"
OURS = {"ours": ("Bread", "Bread of acme is baked.")}


@dataclass(frozen=True)
class Estate:
    ids: Mapping[str, str]
    """A value for every parameter of a path."""
    client: httpx.Client

    def state(self) -> list[object]:
        """Everything of zenith that an attack could change."""
        paths = ("searches/{search_id}", "namespaces/{namespace}/tickets/{ticket}", "namespaces/{namespace}")
        responses = [self.client.get(f"/v1/{path.format(**self.ids)}") for path in paths]
        job = self.client.get(f"/v1/jobs/{self.ids['job_id']}").json()
        is_paused = job["state"] == "paused"
        return [*((one.status_code, one.text) for one in responses), job["name"], job["outcome"], is_paused]


def index_documents(pipeline: RunningPipeline) -> None:
    """A namespace with acme's and zenith's documents, and one of acme's own."""
    pipeline.index(OURS, namespace=NAMESPACE, customer="acme")
    theirs = {f"{MARK}-1": ("Bread", f"Bread of {MARK} is baked.")}
    pipeline.index(theirs, namespace=NAMESPACE, customer="zenith", **{THEIR_FIELD: "bread"})
    pipeline.index(OURS, namespace=OUR_NAMESPACE, customer="acme")


@contextmanager
def estate(api: HttpApi) -> Iterator[Estate]:
    with api.client("zenith") as client:
        document = {"id": f"{MARK}-3", "text": f"{MARK} bread"}
        handed_in = f"/v1/namespaces/{THEIR_NAMESPACE}/documents"
        accepted = client.post(handed_in, json={"documents": [document]})
        assert accepted.status_code == 202, accepted.text
        until(lambda: client.get(accepted.headers["Location"]).json()["state"] != "waiting")
        body = {"questions": [f"{MARK} bread"], "namespace": THEIR_NAMESPACE, "tags": {"x": MARK}}
        search = client.post("/v1/searches", json=body, headers={"Idempotency-Key": "same"})
        assert search.status_code == 200, search.text
        assert MARK in search.text
        line = f'{{"id": "{MARK}", "text": "{MARK}"}}'.encode()
        about = {"namespace": THEIR_NAMESPACE, "name": MARK}
        job = client.post("/v1/jobs", content=line, headers=JSONL, params=about)
        assert job.status_code == 201, job.text
        ids = {
            "search_id": search.json()["request_id"],
            "job_id": job.json()["job_id"],
            "namespace": THEIR_NAMESPACE,
            "ticket": accepted.json()["ticket"],
            "request_id": search.json()["request_id"],
        }
        until(lambda: client.get(f"/v1/audit/{ids['request_id']}").status_code == 200)
        yield Estate(ids, client)
