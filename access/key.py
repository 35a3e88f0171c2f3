"""API keys: `chorale_<key id>_<secret>`.  Only a hash of the secret is stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH = 12
_KEY = re.compile(rf"chorale_([{_ID_LETTERS}]{{{_ID_LENGTH}}})_([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True)
class NewKey:
    key_id: str
    text: str
    """The whole key, which is shown once."""
    hashed: str

    def __repr__(self) -> str:
        return f"NewKey({self.key_id!r})"


def new_key() -> NewKey:
    key_id = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
    secret = secrets.token_urlsafe(32)
    return NewKey(key_id, f"chorale_{key_id}_{secret}", hash_of(secret))


def shown_prefix(key_id: str) -> str:
    """What lists show of a key."""
    return f"chorale_{key_id}_…"


def parts_of(text: str) -> tuple[str, str] | None:
    """Id and secret of a key; None if the text is no key."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


def hash_of(secret: str) -> str:
    # A fast hash suffices: nobody can guess 256 random bits.
    return hashlib.sha256(secret.encode()).hexdigest()


NO_KEY = hash_of("")
"""The hash that the secret of an unknown key is compared with, so that its check takes as long as any other."""


def is_secret(secret: str, hashed: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(hash_of(secret), hashed)
