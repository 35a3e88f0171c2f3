"""`chorale status` and `chorale doctor` where Redis refuses the login, or TLS fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.installation import Installation, NotRunning
from config.settings import Settings
from tests.integration.cli.commands.findings import examined
from tests.integration.cli.commands.printed import complaint, document
from tests.support.command_line import Run
from tests.support.servers.redis_acl import SecuredRedis
from tests.support.servers.redis_server import RedisServer, free_port


def refusal(home: Path, url: str, checks: tuple[str, ...] = ("redis answers", "redis memory")) -> NotRunning:
    installation = Installation(Settings(home=home, redis_url=url), url)
    with pytest.raises(NotRunning) as refused:
        installation.running_redis()
    # The one thing to mend, and every other check that needs Redis says the same.
    results = examined(installation, *checks)
    (finding,) = results["redis answers"].findings
    assert (finding.what, finding.mend) == (refused.value.what, refused.value.mend)
    assert results["redis memory"].skipped == str(refused.value)
    assert not [
        one for one in results.values() for finding in one.findings if "this check failed" in finding.what
    ]
    return refused.value


def test_a_wrong_password_is_a_refused_login(secured: SecuredRedis, tmp_path: Path) -> None:
    url = secured.url.replace(secured.passwords["worker"], "opensesame-opensesame")
    wrong = refusal(tmp_path, url, checks=())  # every check
    assert wrong.what.startswith(f"the Redis at rediss://***@127.0.0.1:{secured.tls_port}/0?ssl_")
    assert "refuses the login (invalid username-password pair" in wrong.what
    assert wrong.mend == "correct user and password in CHORALE_REDIS_URL"
    assert "opensesame" not in str(wrong)


@pytest.mark.parametrize(
    ("host", "options", "what", "mend"),
    [
        ("127.0.0.1", "", "is not trusted (self-signed certificate)", "?ssl_ca_certs="),
        ("127.0.0.1", "?ssl_ca_certs=/nowhere.crt", "fails (No such file or directory)", "exist"),
        ("127.0.0.1", "?ssl_ca_certs={folder}/server.key", "fails (", "contain certificates"),
        ("localhost", None, "is not valid for 'localhost'", "and use the host name of the certificate"),
    ],
    ids=["untrusted", "missing", "no certificate", "another name"],
)
def test_the_error_distinguishes_a_wrong_certificate_from_an_absent_server(
    secured: SecuredRedis, tmp_path: Path, host: str, options: str | None, what: str, mend: str
) -> None:
    address, _, own = secured.url.replace("127.0.0.1", host).partition("?")
    query = f"?{own}" if options is None else options.format(folder=secured.folder)
    refused = refusal(tmp_path, address + query)
    assert what in refused.what
    assert mend in refused.mend


def test_an_address_without_tls_for_a_server_with_it_and_the_other_way_round(
    secured: SecuredRedis, tmp_path: Path
) -> None:
    plain = secured.url.partition("?")[0].replace("rediss://", "redis://")
    assert "rediss://" in refusal(tmp_path, plain).mend
    with RedisServer(port=free_port()) as server:
        over_tls = server.tcp_url.replace("redis://", "rediss://")
        assert refusal(tmp_path, over_tls).mend.endswith("CHORALE_REDIS_URL must begin with redis://")


def test_the_error_names_the_login_that_has_the_right(secured: SecuredRedis, alone: Run) -> None:
    for role in ("caller", "worker"):
        sentence = complaint(alone("status", CHORALE_REDIS_URL=secured.url_of(role)))
        assert sentence.startswith("chorale: Redis does not allow this login to do that (")
        mend = "put a login with that permission into CHORALE_REDIS_URL, such as the operator's"
        assert sentence.endswith(f": {mend}\n")


def test_doctor_with_a_worker_s_login_says_why_it_did_not_look(secured: SecuredRedis, alone: Run) -> None:
    worker = {"CHORALE_REDIS_URL": secured.url_of("worker")}
    report = document(alone("doctor", "--json", **worker), 1)["checks"]
    whys = {check["check"]: check["why"] for check in report if check["status"] == "skipped"}
    assert "'info' command" in whys["redis version"]
    assert "'scan' command" in whys["workers"]
