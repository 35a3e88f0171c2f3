"""Requests to Amazon OpenSearch Service are signed, as a stand-in for it computes from Amazon's description of Signature Version 4."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest

from models.declarations.engines import OpenSearchEndpoint
from models.errors import NotConfigured, Unauthorised, WrongDeclaration
from search.engines.elasticsearch.dialect import Request
from search.engines.opensearch.client import OpenSearchDialect
from search.kinds import open_opensearch
from tests.support.pipelines import pipeline_files
from tests.support.servers.elasticsearch_server import Answer, Impostor

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
BULK = Request("POST", "/our%2Cindex/_bulk", b'{"index":{}}\n', {"refresh": "true", "filter_path": "a,b"})
FORBIDDEN = "Credential should be scoped to a valid region, not 'us-east-1'."


def signature(
    method: str, target: str, headers: Mapping[str, str], signed: Sequence[str], body: bytes, scope: str
) -> str:
    """docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, with SECRET."""
    path, _, query = target.partition("?")
    sorted_query = "&".join(sorted(query.split("&")))
    sent = [f"{name}:{headers[name]}" for name in signed]
    canonical = [method, quote(path), sorted_query, *sent, "", ";".join(signed), sha256(body).hexdigest()]
    digest = sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, digest])
    return hmac.digest(key, text.encode(), "sha256").hex()


def test_the_stand_in_computes_the_signature_of_amazons_own_example() -> None:
    """`get-vanilla` of Amazon's test suite for Signature Version 4."""
    headers = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z"}
    scope = "20150830/us-east-1/service/aws4_request"
    expected = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    assert signature("GET", "/", headers, [*headers], b"", scope) == expected


class Amazon(Impostor):
    """A domain in eu-west-1, which answers the request BULK if it is signed with SECRET."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    def _answer(self, target: str, body: bytes) -> Answer:
        _, headers = self.requests[-1]
        said = {"content-type": "application/json"}
        credential, names, actual = (part.partition("=")[2] for part in headers["authorization"].split(", "))
        scope = credential.removeprefix("AKIDEXAMPLE/")
        signed = names.split(";")
        if not {"host", "x-amz-date", "x-amz-security-token"} <= set(signed):
            return 403, b"{}", said
        if scope != f"{headers['x-amz-date'][:8]}/eu-west-1/es/aws4_request":
            return 403, json.dumps({"message": f"{FORBIDDEN}\n\nThe header was: secret token"}).encode(), said
        if actual != signature("POST", target, headers, signed, body, scope):
            return 403, b'{"message": "The request signature we calculated does not match"}', said
        return 200, b'{"errors": false}', said


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The credentials of a role, in the environment.  The profile and the role of this machine are out of reach."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret token")


@pytest.fixture
def amazon() -> Iterator[Amazon]:
    with Amazon() as server:
        yield server


def test_a_request_has_the_signature_that_amazon_computes_from_it(amazon: Amazon) -> None:
    dialect = OpenSearchDialect(OpenSearchEndpoint(url=amazon.url, aws_region="eu-west-1"))
    assert dialect.send(BULK, 5.0) == {"errors": False}
    dialect.close()


def test_the_error_for_a_wrong_region_names_the_option_and_what_amazon_says_without_the_token(
    amazon: Amazon,
) -> None:
    dialect = OpenSearchDialect(OpenSearchEndpoint(url=amazon.url, aws_region="us-east-1"))
    with pytest.raises(Unauthorised, match=r"\(403\): check .* aws_region and the AWS credentials") as raised:
        dialect.send(BULK, 5.0)
    assert FORBIDDEN in str(raised.value)
    assert "secret token" not in str(raised.value)
    dialect.close()


def test_missing_credentials_and_an_unknown_profile_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(NotConfigured, match="aws_region needs AWS credentials: Unable to locate credentials"):
        open_opensearch("texts", {"aws_region": "eu-west-1"})
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(NotConfigured, match=r"aws_region needs AWS credentials: .* \(nobody\)"):
        open_opensearch("texts", {"aws_region": "eu-west-1"})


def test_a_second_login_is_refused(tmp_path: Path) -> None:
    options = '{ aws_region = "eu-west-1", username = "me", password_env = "P" }'
    declared = f'[stores.texts]\nkind = "opensearch"\noptions = {options}\n[branches.bm25]\nkind = "bm25"\ngroup = "lexical"\nstore = "texts"\n'
    with pytest.raises(WrongDeclaration, match="either aws_region, or username"):
        pipeline_files.declared(tmp_path, declared)
