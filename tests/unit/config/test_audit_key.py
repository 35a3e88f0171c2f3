"""The key of the hashes in the audit tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from config.audit_key import audit_key
from config.settings import Settings


def test_the_first_call_makes_the_key_of_the_home_for_its_owner_alone(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(audit_key, [settings] * 8))
    (key,) = keys
    assert len(key) == 64
    assert audit_key(Settings(home=tmp_path / "other")) != key
    (file,) = settings.home.iterdir()
    assert (file.stat().st_mode & 0o777, settings.home.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_given_key_is_used_and_no_file_is_made(tmp_path: Path) -> None:
    assert audit_key(Settings(home=tmp_path, audit_hash_key="k" * 32)) == b"k" * 32
    assert not list(tmp_path.iterdir())
