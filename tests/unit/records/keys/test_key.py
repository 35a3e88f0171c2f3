"""The text of a key."""

from __future__ import annotations

from records.keys.key_store import NO_KEY, is_secret, new_key, parts_of


def test_a_new_key_is_read_again_and_only_its_hash_matches() -> None:
    made = new_key()
    parts = parts_of(made.text)
    assert parts is not None
    key_id, secret = parts
    assert (key_id, len(secret)) == (made.key_id, 43)
    assert is_secret(secret, made.hashed)
    assert not is_secret(secret, new_key().hashed)
    assert not is_secret("", NO_KEY) or parts_of(f"chorale_{key_id}_") is None
    assert secret not in repr(made)
    assert secret not in made.hashed
