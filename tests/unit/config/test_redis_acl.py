"""The ACL file: hashes of passwords; roles without a password are off."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from deploy.redis_acl import ROLES, acl_file, main
from models.errors import WrongDeclaration

LONG = "correct-horse-battery"


def test_the_file_contains_only_hashes_of_passwords_and_a_role_without_one_is_off() -> None:
    text = acl_file({"REDIS_WORKER_PASSWORD": LONG, "REDIS_ADMIN_PASSWORD": ""})
    assert f"user worker reset on #{hashlib.sha256(LONG.encode()).hexdigest()} " in text
    assert LONG not in text
    others = {line.split()[1] for line in text.splitlines() if " off " in line}
    assert others == ROLES.keys() - {"worker"}


def test_only_the_administrator_has_every_command() -> None:
    text = acl_file(dict.fromkeys((role.variable for role in ROLES.values()), LONG))
    assert [line.split()[1] for line in text.splitlines() if "+@" in line] == ["admin"]


@pytest.mark.parametrize("environ", [{}, {"REDIS_WORKER_PASSWORD": "short"}])
def test_missing_and_short_passwords_are_refused_by_the_name_of_the_variable(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongDeclaration, match="REDIS_WORKER_PASSWORD") as refused:
        acl_file(environ)
    assert "short" not in str(refused.value).replace("shortest", "")
    for role in ROLES.values():
        monkeypatch.delenv(role.variable, raising=False)
    assert "REDIS_CALLER_PASSWORD" in str(main([])), "the command says it too"


@pytest.mark.parametrize("is_there", [True, False])
def test_only_the_owner_may_read_the_file(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for any umask, and for a file that an earlier version made."""
    file = tmp_path / "users.acl"
    if is_there:
        file.write_text("user old on\n" * 100)
        file.chmod(0o644)
    monkeypatch.setenv("REDIS_WORKER_PASSWORD", LONG)
    before = os.umask(0)
    try:
        assert main([str(file)]) == 0
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == acl_file(os.environ)


def test_an_application_takes_tasks_from_the_queues_of_on_end_alone() -> None:
    def rules(**queues: str) -> list[str]:
        text = acl_file({"REDIS_APPLICATION_PASSWORD": LONG, **queues})
        (line,) = [line for line in text.splitlines() if line.startswith("user application ")]
        return [rule for rule in line.split("(") if "+brpop" in rule]

    assert rules() == []
    (consuming,) = rules(CHORALE_ON_END_QUEUES="shop, reports")
    assert {"~shop", "~reports", "~unacked"} <= set(consuming.split())
    assert "chorale" not in consuming
    # Blanks, brackets and the signs of patterns would end or widen a rule.
    (consuming,) = rules(CHORALE_ON_END_QUEUES="two words (new)*")
    assert "~two?words??new??" in consuming.split()
