"""The file of logins: hashes, and off what has no password."""

from __future__ import annotations

import hashlib

import pytest

from config.redis_acl import ROLES, acl_file, main
from models.errors import WrongDeclaration

LONG = "correct-horse-battery"


def test_a_password_stands_in_the_file_as_its_hash_alone() -> None:
    text = acl_file({"REDIS_WORKER_PASSWORD": LONG})
    assert f"user worker reset on #{hashlib.sha256(LONG.encode()).hexdigest()} " in text
    assert LONG not in text


def test_a_role_without_a_password_is_off() -> None:
    lines = acl_file({"REDIS_WORKER_PASSWORD": LONG, "REDIS_ADMIN_PASSWORD": ""}).splitlines()
    others = {line.split()[1] for line in lines if " off " in line}
    assert others == ROLES.keys() - {"worker"}


def test_only_the_administrator_has_every_command() -> None:
    text = acl_file(dict.fromkeys((role.variable for role in ROLES.values()), LONG))
    assert [line.split()[1] for line in text.splitlines() if "+@" in line] == ["admin"]


@pytest.mark.parametrize("environ", [{}, {"REDIS_WORKER_PASSWORD": "short"}])
def test_no_password_or_one_that_can_be_guessed_is_refused_by_its_variable(environ: dict[str, str]) -> None:
    with pytest.raises(WrongDeclaration, match="REDIS_WORKER_PASSWORD") as refused:
        acl_file(environ)
    assert "short" not in str(refused.value).replace("shortest", "")


def test_the_command_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ROLES.values():
        monkeypatch.delenv(role.variable, raising=False)
    assert "REDIS_CALLER_PASSWORD" in str(main([]))
