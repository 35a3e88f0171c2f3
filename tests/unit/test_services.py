"""A missing service skips on a laptop and fails in CI."""

from __future__ import annotations

import pytest

from tests.support.servers.services import SERVICES, need


def test_what_is_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVICES["redis"], "redis://somewhere")
    assert need("redis", "unused") == "redis://somewhere"
    assert need("numpy", "unused") == "numpy"


@pytest.mark.parametrize("name", ["redis", "no_such_package"])
def test_what_is_missing_skips_on_a_laptop_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(SERVICES["redis"], raising=False)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"without {name}: run this"):
        need(name, "run this")


@pytest.mark.parametrize("name", ["redis", "no_such_package"])
def test_what_is_missing_fails_in_ci(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(SERVICES["redis"], raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=f"without {name}: run this"):
        need(name, "run this")
